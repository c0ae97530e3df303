package nfsclient

import (
	"context"

	"example.org/nfsrdma/internal/nfs3"
)

// SetAttr sets attributes (SETATTR). With a guard, only if the file's ctime is *guard; otherwise
// NFS3ERR_NOT_SYNC.
func (m *Mount) SetAttr(ctx context.Context, fh FH, set *Sattr, guard *Time) (WccData, error) {
	args := nfs3.SetattrArgs{Object: fh, Attr: orZero(set)}
	if guard != nil {
		args.Guard, args.GuardCtime = true, *guard
	}
	var res nfs3.SetattrRes
	if err := simple(ctx, m, nfs3.SETATTR, &args, nfs3.AppendSetattrArgs, &res, nfs3.ConsumeSetattrRes); err != nil {
		return WccData{}, err
	}
	return res.ObjWcc, check(nfs3.SETATTR, "", res.Status)
}

// Access gives those bits of mask that the server grants (ACCESS).
func (m *Mount) Access(ctx context.Context, fh FH, mask uint32) (uint32, error) {
	var res nfs3.AccessRes
	err := simple(ctx, m, nfs3.ACCESS, &nfs3.AccessArgs{Object: fh, Access: mask}, nfs3.AppendAccessArgs, &res, nfs3.ConsumeAccessRes)
	if err != nil {
		return 0, err
	}
	return res.Access, check(nfs3.ACCESS, "", res.Status)
}

// FSStat tells how full the file system is (FSSTAT).
func (m *Mount) FSStat(ctx context.Context, root FH) (FsstatRes, error) {
	var res FsstatRes
	if err := simple(ctx, m, nfs3.FSSTAT, &nfs3.FsstatArgs{Root: root}, nfs3.AppendFsstatArgs, &res, nfs3.ConsumeFsstatRes); err != nil {
		return res, err
	}
	return res, check(nfs3.FSSTAT, "", res.Status)
}

// FSInfo tells what the server can do (FSINFO).
func (m *Mount) FSInfo(ctx context.Context, root FH) (FsinfoRes, error) {
	var res FsinfoRes
	if err := simple(ctx, m, nfs3.FSINFO, &nfs3.FsinfoArgs{Root: root}, nfs3.AppendFsinfoArgs, &res, nfs3.ConsumeFsinfoRes); err != nil {
		return res, err
	}
	return res, check(nfs3.FSINFO, "", res.Status)
}

// PathConf tells the limits of names and links (PATHCONF).
func (m *Mount) PathConf(ctx context.Context, fh FH) (PathconfRes, error) {
	var res PathconfRes
	if err := simple(ctx, m, nfs3.PATHCONF, &nfs3.PathconfArgs{Object: fh}, nfs3.AppendPathconfArgs, &res, nfs3.ConsumePathconfRes); err != nil {
		return res, err
	}
	return res, check(nfs3.PATHCONF, "", res.Status)
}
