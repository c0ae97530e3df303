package fabric

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Shard is a part of a sweep's cells: every Count-th from Index on, 0 <= Index < Count. The zero value is all.
type Shard struct{ Index, Count int }

func (s Shard) check() error {
	if s.Count == 0 && s.Index == 0 {
		return nil
	}
	if s.Count < 1 || s.Index < 0 || s.Index >= s.Count {
		return &LimitError{"Shard", s, "1/1 to N/N with N at least 1"}
	}
	return nil
}

// has says whether cell i is in the shard.
func (s Shard) has(i int) bool { return s.Count <= 1 || i%s.Count == s.Index }

// Whole says whether the shard is all there is.
func (s Shard) Whole() bool { return s.Count <= 1 }

// String counts from 1: "2/4".
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index+1, max(s.Count, 1)) }

// ParseShard reads "2/4", the second of four.
func ParseShard(s string) (Shard, error) {
	a, b, ok := strings.Cut(s, "/")
	i, err1 := strconv.Atoi(a)
	n, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || n < 1 || i < 1 || i > n {
		return Shard{}, &LimitError{"Shard", strconv.Quote(s), "1/N to N/N, such as 2/4"}
	}
	return Shard{i - 1, n}, nil
}

// ShardFromEnv is what the engine that started the process asks for, from the variables that it sets: those of
// Bazel (TEST_TOTAL_SHARDS, TEST_SHARD_INDEX; TEST_SHARD_STATUS_FILE is touched), Slurm's job arrays
// (SLURM_ARRAY_TASK_ID, _MIN, _COUNT, _STEP) and Kubernetes' indexed jobs (JOB_COMPLETION_INDEX). Kubernetes does not tell
// how many there are: that is total, or JOB_COMPLETIONS if total is 0. Without any it is all.
func ShardFromEnv(total int) (Shard, error) { return shardFrom(os.Getenv, total) }

func shardFrom(getenv func(string) string, total int) (Shard, error) {
	if f := getenv("TEST_SHARD_STATUS_FILE"); f != "" {
		// Bazel looks at its time of change to see that shards are supported.
		if err := os.WriteFile(f, nil, 0o644); err != nil {
			return Shard{}, fmt.Errorf("fabric: TEST_SHARD_STATUS_FILE: %w", err)
		}
	}
	var bad error
	num := func(name string, def int) int {
		s := getenv(name)
		if s == "" {
			if def < 0 && bad == nil {
				bad = fmt.Errorf("fabric: shard: %s is not set", name)
			}
			return def
		}
		n, err := strconv.Atoi(s)
		if (err != nil || n < 0) && bad == nil {
			bad = fmt.Errorf("fabric: shard: %s=%q is not a count", name, s)
		}
		return n
	}
	var s Shard
	from := ""
	switch {
	case getenv("TEST_TOTAL_SHARDS") != "":
		from = "TEST_SHARD_INDEX of TEST_TOTAL_SHARDS"
		s = Shard{num("TEST_SHARD_INDEX", -1), num("TEST_TOTAL_SHARDS", -1)}
	case getenv("SLURM_ARRAY_TASK_ID") != "":
		from = "SLURM_ARRAY_TASK_ID of SLURM_ARRAY_TASK_COUNT"
		id, least, step := num("SLURM_ARRAY_TASK_ID", -1), num("SLURM_ARRAY_TASK_MIN", 0), max(num("SLURM_ARRAY_TASK_STEP", 1), 1)
		s = Shard{(id - least) / step, num("SLURM_ARRAY_TASK_COUNT", -1)}
		if bad == nil && (id < least || (id-least)%step != 0) {
			return Shard{}, fmt.Errorf("fabric: shard: SLURM_ARRAY_TASK_ID=%d does not follow from SLURM_ARRAY_TASK_MIN=%d by steps of %d", id, least, step)
		}
	case getenv("JOB_COMPLETION_INDEX") != "":
		from = "JOB_COMPLETION_INDEX of JOB_COMPLETIONS, or the number of shards given"
		if total == 0 {
			total = num("JOB_COMPLETIONS", -1)
		}
		s = Shard{num("JOB_COMPLETION_INDEX", -1), total}
	default:
		return Shard{}, nil
	}
	if bad != nil {
		return Shard{}, bad
	}
	if s.Count < 1 || s.Index >= s.Count {
		return Shard{}, fmt.Errorf("fabric: shard: %s is %d of %d, must be below it (arrays must be ranges without gaps)", from, s.Index, s.Count)
	}
	return s, nil
}
