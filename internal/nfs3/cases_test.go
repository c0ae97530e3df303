package nfs3

import (
	"testing"

	"github.com/stretchr/testify/require"

	"example.org/nfsrdma/internal/xdr/xdrtest"
)

func fh(s string) FH {
	f, ok := MakeFH([]byte(s))
	if !ok {
		panic("file handle too long")
	}
	return f
}

var (
	attr = Fattr3{
		Type: NF3REG, Mode: 0o644, Nlink: 1, UID: 1000, GID: 100, Size: 65537, Used: 69632, FSID: 0x1234, FileID: 506,
		Atime: Time{1, 2}, Mtime: Time{3, 4}, Ctime: Time{5, 6},
	}
	device = Fattr3{Type: NF3CHR, Mode: 0o600, Nlink: 1, Rdev: Spec{1, 3}, FileID: 507}

	postAttr = PostOpAttr{Present: true, Attr: attr}
	wcc      = WccData{Before: PreOpAttr{Present: true, Size: 7, Mtime: Time{1, 1}, Ctime: Time{2, 2}}, After: postAttr}
	newFH    = PostOpFH{Present: true, FH: fh("new handle")}
	allSet   = Sattr3{
		SetMode: true, SetUID: true, SetGID: true, SetSize: true, Mode: 0o755, UID: 1, GID: 2, Size: 3,
		AtimeHow: SET_TO_SERVER_TIME, MtimeHow: SET_TO_CLIENT_TIME, Mtime: Time{8, 9},
	}
	what = DirOp{Dir: fh("dir!"), Name: []byte("name")}
	verf = Verf{1, 2, 3, 4, 5, 6, 7, 8}
)

func entries(es ...Entry) EntryList {
	l := EntryList{}
	for i := range es {
		l = AppendEntry(l, &es[i])
	}
	return l
}

func entriesPlus(es ...EntryPlus) EntryPlusList {
	l := EntryPlusList{}
	for i := range es {
		l = AppendEntryPlus(l, &es[i])
	}
	return l
}

var (
	dot    = Entry{FileID: 2, Name: []byte("."), Cookie: 1}
	dotdot = Entry{FileID: 1, Name: []byte(".."), Cookie: 2}
)

func argsCases() []xdrtest.Case {
	return []xdrtest.Case{
		xdrtest.Of("NullArgs", &NullArgs{}, AppendNullArgs, ConsumeNullArgs),
		xdrtest.Of("GetattrArgs", &GetattrArgs{Object: fh("file")}, AppendGetattrArgs, ConsumeGetattrArgs),
		xdrtest.Of("GetattrArgs, longest handle", &GetattrArgs{Object: fh("0123456789012345678901234567890123456789012345678901234567890123")},
			AppendGetattrArgs, ConsumeGetattrArgs),
		xdrtest.Of("SetattrArgs", &SetattrArgs{Object: fh("file"), Attr: allSet}, AppendSetattrArgs, ConsumeSetattrArgs),
		xdrtest.Of("SetattrArgs, guarded", &SetattrArgs{Object: fh("file"), Guard: true, GuardCtime: Time{5, 6}},
			AppendSetattrArgs, ConsumeSetattrArgs),
		xdrtest.Of("LookupArgs", &LookupArgs{What: what}, AppendLookupArgs, ConsumeLookupArgs),
		xdrtest.Of("AccessArgs", &AccessArgs{Object: fh("file"), Access: ACCESS3_READ | ACCESS3_EXECUTE}, AppendAccessArgs, ConsumeAccessArgs),
		xdrtest.Of("ReadlinkArgs", &ReadlinkArgs{Symlink: fh("link")}, AppendReadlinkArgs, ConsumeReadlinkArgs),
		xdrtest.Of("ReadArgs", &ReadArgs{File: fh("file"), Offset: 1 << 40, Count: 65536}, AppendReadArgs, ConsumeReadArgs),
		xdrtest.Of("WriteArgs", &WriteArgs{File: fh("file"), Offset: 1, Count: 5, Stable: DATA_SYNC, Data: []byte("datum")},
			AppendWriteArgs, ConsumeWriteArgs),
		xdrtest.Of("CreateArgs, unchecked", &CreateArgs{Where: what, Attr: allSet}, AppendCreateArgs, ConsumeCreateArgs),
		xdrtest.Of("CreateArgs, guarded", &CreateArgs{Where: what, Mode: GUARDED}, AppendCreateArgs, ConsumeCreateArgs),
		xdrtest.Of("CreateArgs, exclusive", &CreateArgs{Where: what, Mode: EXCLUSIVE, Verf: verf}, AppendCreateArgs, ConsumeCreateArgs),
		xdrtest.Of("MkdirArgs", &MkdirArgs{Where: what, Attr: Sattr3{SetMode: true, Mode: 0o700}}, AppendMkdirArgs, ConsumeMkdirArgs),
		xdrtest.Of("SymlinkArgs", &SymlinkArgs{Where: what, Path: []byte("../target")}, AppendSymlinkArgs, ConsumeSymlinkArgs),
		xdrtest.Of("MknodArgs, device", &MknodArgs{Where: what, Type: NF3BLK, Attr: allSet, Spec: Spec{8, 1}}, AppendMknodArgs, ConsumeMknodArgs),
		xdrtest.Of("MknodArgs, fifo", &MknodArgs{Where: what, Type: NF3FIFO}, AppendMknodArgs, ConsumeMknodArgs),
		xdrtest.Of("MknodArgs, of no use", &MknodArgs{Where: what, Type: NF3DIR}, AppendMknodArgs, ConsumeMknodArgs),
		xdrtest.Of("RemoveArgs", &RemoveArgs{Object: what}, AppendRemoveArgs, ConsumeRemoveArgs),
		xdrtest.Of("RmdirArgs", &RmdirArgs{Object: what}, AppendRmdirArgs, ConsumeRmdirArgs),
		xdrtest.Of("RenameArgs", &RenameArgs{From: what, To: DirOp{Dir: fh("dir2"), Name: []byte("new")}}, AppendRenameArgs, ConsumeRenameArgs),
		xdrtest.Of("LinkArgs", &LinkArgs{File: fh("file"), Link: what}, AppendLinkArgs, ConsumeLinkArgs),
		xdrtest.Of("ReaddirArgs", &ReaddirArgs{Dir: fh("dir!"), Cookie: 3, Verf: verf, Count: 4096}, AppendReaddirArgs, ConsumeReaddirArgs),
		xdrtest.Of("ReaddirplusArgs", &ReaddirplusArgs{Dir: fh("dir!"), Cookie: 3, Verf: verf, DirCount: 512, MaxCount: 4096},
			AppendReaddirplusArgs, ConsumeReaddirplusArgs),
		xdrtest.Of("FsstatArgs", &FsstatArgs{Root: fh("root")}, AppendFsstatArgs, ConsumeFsstatArgs),
		xdrtest.Of("FsinfoArgs", &FsinfoArgs{Root: fh("root")}, AppendFsinfoArgs, ConsumeFsinfoArgs),
		xdrtest.Of("PathconfArgs", &PathconfArgs{Object: fh("file")}, AppendPathconfArgs, ConsumePathconfArgs),
		xdrtest.Of("CommitArgs", &CommitArgs{File: fh("file"), Offset: 4096, Count: 8192}, AppendCommitArgs, ConsumeCommitArgs),
	}
}

func resCases() []xdrtest.Case {
	return []xdrtest.Case{
		xdrtest.Of("NullRes", &NullRes{}, AppendNullRes, ConsumeNullRes),
		xdrtest.Of("GetattrRes", &GetattrRes{Attr: device}, AppendGetattrRes, ConsumeGetattrRes),
		xdrtest.Of("GetattrRes, failed", &GetattrRes{Status: NFS3ERR_STALE}, AppendGetattrRes, ConsumeGetattrRes),
		xdrtest.Of("SetattrRes", &SetattrRes{ObjWcc: wcc}, AppendSetattrRes, ConsumeSetattrRes),
		xdrtest.Of("SetattrRes, failed", &SetattrRes{Status: NFS3ERR_NOT_SYNC, ObjWcc: wcc}, AppendSetattrRes, ConsumeSetattrRes),
		xdrtest.Of("LookupRes", &LookupRes{Object: fh("file"), ObjAttr: postAttr, DirAttr: postAttr}, AppendLookupRes, ConsumeLookupRes),
		xdrtest.Of("LookupRes, failed", &LookupRes{Status: NFS3ERR_NOENT, DirAttr: postAttr}, AppendLookupRes, ConsumeLookupRes),
		xdrtest.Of("AccessRes", &AccessRes{ObjAttr: postAttr, Access: ACCESS3_READ}, AppendAccessRes, ConsumeAccessRes),
		xdrtest.Of("AccessRes, failed", &AccessRes{Status: NFS3ERR_ACCES}, AppendAccessRes, ConsumeAccessRes),
		xdrtest.Of("ReadlinkRes", &ReadlinkRes{Attr: postAttr, Path: []byte("../target")}, AppendReadlinkRes, ConsumeReadlinkRes),
		xdrtest.Of("ReadlinkRes, failed", &ReadlinkRes{Status: NFS3ERR_INVAL}, AppendReadlinkRes, ConsumeReadlinkRes),
		xdrtest.Of("ReadRes", &ReadRes{Attr: postAttr, Count: 5, EOF: true, Data: []byte("datum")}, AppendReadRes, ConsumeReadRes),
		xdrtest.Of("ReadRes, failed", &ReadRes{Status: NFS3ERR_IO, Attr: postAttr}, AppendReadRes, ConsumeReadRes),
		xdrtest.Of("WriteRes", &WriteRes{FileWcc: wcc, Count: 5, Committed: FILE_SYNC, Verf: verf}, AppendWriteRes, ConsumeWriteRes),
		xdrtest.Of("WriteRes, failed", &WriteRes{Status: NFS3ERR_NOSPC, FileWcc: wcc}, AppendWriteRes, ConsumeWriteRes),
		xdrtest.Of("CreateRes", &CreateRes{Object: newFH, ObjAttr: postAttr, DirWcc: wcc}, AppendCreateRes, ConsumeCreateRes),
		xdrtest.Of("CreateRes, failed", &CreateRes{Status: NFS3ERR_EXIST, DirWcc: wcc}, AppendCreateRes, ConsumeCreateRes),
		xdrtest.Of("MkdirRes", &MkdirRes{Object: newFH, ObjAttr: postAttr}, AppendMkdirRes, ConsumeMkdirRes),
		xdrtest.Of("MkdirRes, failed", &MkdirRes{Status: NFS3ERR_ROFS, DirWcc: wcc}, AppendMkdirRes, ConsumeMkdirRes),
		xdrtest.Of("SymlinkRes", &SymlinkRes{DirWcc: wcc}, AppendSymlinkRes, ConsumeSymlinkRes),
		xdrtest.Of("SymlinkRes, failed", &SymlinkRes{Status: NFS3ERR_NAMETOOLONG}, AppendSymlinkRes, ConsumeSymlinkRes),
		xdrtest.Of("MknodRes", &MknodRes{Object: newFH, ObjAttr: postAttr, DirWcc: wcc}, AppendMknodRes, ConsumeMknodRes),
		xdrtest.Of("MknodRes, failed", &MknodRes{Status: NFS3ERR_BADTYPE}, AppendMknodRes, ConsumeMknodRes),
		xdrtest.Of("RemoveRes", &RemoveRes{DirWcc: wcc}, AppendRemoveRes, ConsumeRemoveRes),
		xdrtest.Of("RmdirRes", &RmdirRes{Status: NFS3ERR_NOTEMPTY, DirWcc: wcc}, AppendRmdirRes, ConsumeRmdirRes),
		xdrtest.Of("RenameRes", &RenameRes{FromDirWcc: wcc, ToDirWcc: wcc}, AppendRenameRes, ConsumeRenameRes),
		xdrtest.Of("RenameRes, failed", &RenameRes{Status: NFS3ERR_XDEV}, AppendRenameRes, ConsumeRenameRes),
		xdrtest.Of("LinkRes", &LinkRes{Attr: postAttr, LinkDirWcc: wcc}, AppendLinkRes, ConsumeLinkRes),
		xdrtest.Of("LinkRes, failed", &LinkRes{Status: NFS3ERR_MLINK, Attr: postAttr}, AppendLinkRes, ConsumeLinkRes),
		xdrtest.Of("ReaddirRes", &ReaddirRes{DirAttr: postAttr, Verf: verf, Entries: entries(dot, dotdot), EOF: true},
			AppendReaddirRes, ConsumeReaddirRes),
		xdrtest.Of("ReaddirRes, nothing left", &ReaddirRes{Entries: entries(), EOF: true}, AppendReaddirRes, ConsumeReaddirRes),
		xdrtest.Of("ReaddirRes, failed", &ReaddirRes{Status: NFS3ERR_BAD_COOKIE, DirAttr: postAttr}, AppendReaddirRes, ConsumeReaddirRes),
		xdrtest.Of("ReaddirplusRes", &ReaddirplusRes{
			DirAttr: postAttr, Verf: verf,
			Entries: entriesPlus(EntryPlus{Entry: dot, Attr: postAttr, FH: newFH}, EntryPlus{Entry: dotdot}),
		}, AppendReaddirplusRes, ConsumeReaddirplusRes),
		xdrtest.Of("ReaddirplusRes, failed", &ReaddirplusRes{Status: NFS3ERR_TOOSMALL}, AppendReaddirplusRes, ConsumeReaddirplusRes),
		xdrtest.Of("FsstatRes", &FsstatRes{
			ObjAttr: postAttr, TotalBytes: 1 << 40, FreeBytes: 3, AvailBytes: 2, TotalFiles: 100, FreeFiles: 5, AvailFiles: 4, Invarsec: 30,
		}, AppendFsstatRes, ConsumeFsstatRes),
		xdrtest.Of("FsstatRes, failed", &FsstatRes{Status: NFS3ERR_SERVERFAULT}, AppendFsstatRes, ConsumeFsstatRes),
		xdrtest.Of("FsinfoRes", &FsinfoRes{
			ObjAttr: postAttr, RtMax: 1 << 20, RtPref: 1 << 19, RtMult: 4096, WtMax: 1 << 18, WtPref: 1 << 17, WtMult: 512, DtPref: 8192,
			MaxFileSize: 1<<63 - 1, TimeDelta: Time{0, 1}, Properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME,
		}, AppendFsinfoRes, ConsumeFsinfoRes),
		xdrtest.Of("FsinfoRes, failed", &FsinfoRes{Status: NFS3ERR_BADHANDLE}, AppendFsinfoRes, ConsumeFsinfoRes),
		xdrtest.Of("PathconfRes", &PathconfRes{ObjAttr: postAttr, LinkMax: 32000, NameMax: 255, NoTrunc: true, CasePreserving: true},
			AppendPathconfRes, ConsumePathconfRes),
		xdrtest.Of("PathconfRes, failed", &PathconfRes{Status: NFS3ERR_STALE}, AppendPathconfRes, ConsumePathconfRes),
		xdrtest.Of("CommitRes", &CommitRes{FileWcc: wcc, Verf: verf}, AppendCommitRes, ConsumeCommitRes),
		xdrtest.Of("CommitRes, failed", &CommitRes{Status: NFS3ERR_JUKEBOX, FileWcc: wcc}, AppendCommitRes, ConsumeCommitRes),
		xdrtest.Of("CommitRes, status of no RFC", &CommitRes{Status: 77}, AppendCommitRes, ConsumeCommitRes),
	}
}

func TestArgsCases(t *testing.T) { xdrtest.Run(t, "args.txt", argsCases()) }
func TestResCases(t *testing.T)  { xdrtest.Run(t, "results.txt", resCases()) }

// reducedCase is a message with the length word of an item that is not in it.
type reducedCase struct {
	name   string
	full   []byte
	head   func() []byte
	recode func(b []byte) (head []byte, dataLen uint32, n int, err error)
}

// reducedOf makes a case of v, whose item is of dataLen bytes.
func reducedOf[T any](
	name string, v *T, dataLen int, full func([]byte, *T) []byte,
	addHead func([]byte, *T, uint32) []byte, consumeHead func([]byte, *T) (uint32, int, error),
) reducedCase {
	return reducedCase{
		name: name,
		full: full(nil, v),
		head: func() []byte { return addHead(nil, v, uint32(dataLen)) },
		recode: func(b []byte) ([]byte, uint32, int, error) {
			var got T
			l, n, err := consumeHead(b, &got)
			return addHead(nil, &got, l), l, n, err
		},
	}
}

// TestReduced wants the head of a message to be the message without the bytes of its DDP-eligible item.
func TestReduced(t *testing.T) {
	data := []byte("thirteen byte")
	tail := len(data) + 3
	for _, c := range []reducedCase{
		reducedOf("WRITE", &WriteArgs{File: fh("f"), Offset: 9, Count: 13, Stable: UNSTABLE, Data: data}, len(data),
			AppendWriteArgs, AppendWriteArgsHead, ConsumeWriteArgsHead),
		reducedOf("SYMLINK", &SymlinkArgs{Where: what, Attr: allSet, Path: data}, len(data),
			AppendSymlinkArgs, AppendSymlinkArgsHead, ConsumeSymlinkArgsHead),
		reducedOf("READ", &ReadRes{Attr: postAttr, Count: 13, EOF: true, Data: data}, len(data),
			AppendReadRes, AppendReadResHead, ConsumeReadResHead),
		reducedOf("READLINK", &ReadlinkRes{Attr: postAttr, Path: data}, len(data),
			AppendReadlinkRes, AppendReadlinkResHead, ConsumeReadlinkResHead),
	} {
		t.Run(c.name, func(t *testing.T) {
			head := c.head()
			require.Equal(t, c.full[:len(c.full)-tail], head)
			again, dataLen, n, err := c.recode(head)
			require.NoError(t, err)
			require.EqualValues(t, len(data), dataLen)
			require.Equal(t, len(head), n)
			require.Equal(t, head, again)
			for i := range head {
				_, _, n, err := c.recode(head[:i])
				require.Error(t, err, "cut to %d bytes", i)
				require.Equal(t, -1, n)
			}
		})
	}
	for _, c := range []reducedCase{
		reducedOf("READ", &ReadRes{Status: NFS3ERR_IO, Attr: postAttr}, 99, AppendReadRes, AppendReadResHead, ConsumeReadResHead),
		reducedOf("READLINK", &ReadlinkRes{Status: NFS3ERR_INVAL}, 99, AppendReadlinkRes, AppendReadlinkResHead, ConsumeReadlinkResHead),
	} {
		t.Run(c.name+" failed", func(t *testing.T) {
			require.Equal(t, c.full, c.head(), "a failure has no data to leave out")
			again, dataLen, n, err := c.recode(c.full)
			require.NoError(t, err)
			require.Zero(t, dataLen)
			require.Equal(t, len(c.full), n)
			require.Equal(t, c.full, again)
		})
	}
	require.Len(t, AppendReadResHead(nil, &ReadRes{Attr: postAttr}, 0), ReadResHeadLen)
}
