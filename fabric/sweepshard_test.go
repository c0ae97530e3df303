package fabric

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShardFromEnv(t *testing.T) {
	type env map[string]string
	for _, c := range []struct {
		name  string
		env   env
		total int
		want  Shard
		err   string
	}{
		{"nothing", env{}, 4, Shard{}, ""},
		{"bazel", env{"TEST_TOTAL_SHARDS": "4", "TEST_SHARD_INDEX": "3"}, 0, Shard{3, 4}, ""},
		{"bazel without index", env{"TEST_TOTAL_SHARDS": "4"}, 0, Shard{}, "TEST_SHARD_INDEX is not set"},
		{"bazel beyond", env{"TEST_TOTAL_SHARDS": "4", "TEST_SHARD_INDEX": "4"}, 0, Shard{}, "TEST_SHARD_INDEX of TEST_TOTAL_SHARDS is 4 of 4"},
		{"bazel, not a number", env{"TEST_TOTAL_SHARDS": "4", "TEST_SHARD_INDEX": "x"}, 0, Shard{}, `TEST_SHARD_INDEX="x" is not a count`},
		{"slurm from 0", env{"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "0"}, 0, Shard{2, 3}, ""},
		{"slurm from 1", env{"SLURM_ARRAY_TASK_ID": "1", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1"}, 0, Shard{0, 3}, ""},
		{"slurm 10-30:10", env{"SLURM_ARRAY_TASK_ID": "30", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_STEP": "10"}, 0, Shard{2, 3}, ""},
		{"slurm with gaps", env{"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "1"}, 0, Shard{}, "arrays must be ranges without gaps"},
		{"slurm off its steps", env{"SLURM_ARRAY_TASK_ID": "12", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_ARRAY_TASK_MIN": "10", "SLURM_ARRAY_TASK_STEP": "10"}, 0, Shard{}, "does not follow"},
		{"kubernetes", env{"JOB_COMPLETION_INDEX": "1", "JOB_COMPLETIONS": "2"}, 0, Shard{1, 2}, ""},
		{"kubernetes, total given", env{"JOB_COMPLETION_INDEX": "1", "JOB_COMPLETIONS": "2"}, 5, Shard{1, 5}, ""},
		{"kubernetes without total", env{"JOB_COMPLETION_INDEX": "1"}, 0, Shard{}, "JOB_COMPLETIONS is not set"},
		{"bazel first", env{"TEST_TOTAL_SHARDS": "4", "TEST_SHARD_INDEX": "0", "JOB_COMPLETION_INDEX": "1"}, 0, Shard{0, 4}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := shardFrom(func(k string) string { return c.env[k] }, c.total)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestShardTouchesBazelsFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "status")
	t.Setenv("TEST_SHARD_STATUS_FILE", name)
	t.Setenv("TEST_TOTAL_SHARDS", "2")
	t.Setenv("TEST_SHARD_INDEX", "1")
	s, err := ShardFromEnv(0)
	require.NoError(t, err)
	assert.Equal(t, "2/2", s.String())
	_, err = os.Stat(name)
	require.NoError(t, err)
}

func TestParseShard(t *testing.T) {
	s, err := ParseShard("2/4")
	require.NoError(t, err)
	assert.Equal(t, Shard{1, 4}, s)
	assert.Equal(t, "2/4", s.String())
	assert.True(t, Shard{}.Whole())
	for _, bad := range []string{"", "0/4", "5/4", "1", "1/0", "a/b", "-1/4"} {
		_, err := ParseShard(bad)
		assert.ErrorContains(t, err, "such as 2/4", bad)
	}
	n := 0
	for i := range 100 {
		for k := range 7 {
			if (Shard{k, 7}).has(i) {
				n++
			}
		}
	}
	assert.Equal(t, 100, n, "each cell is in one shard")
}
