// Package dirfs exports a directory of the machine, on Linux.
//
// Every call resolves its object anew, from a descriptor of the root and by
// openat2 with RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_XDEV (where the
// kernel lacks it, one name at a time with O_NOFOLLOW), and acts on the descriptor
// that it found. So no "..", symbolic link, mount point or rename by others leads
// out of the export; a symbolic link is returned, never followed. What one call has
// found may move out of the export while that call goes on.
//
// An ID is
//
//	Ino  st_ino (of other devices: a hash of device and number)
//	Gen  generation(32) | MAC(32) of Ino and generation
//
// The generation is that of the kernel's file handle (name_to_handle_at) or, where
// the file system has none, a hash of it or of the birth time. Where there is neither,
// a number that is used again after a removal by another process is not noticed.
// An ID that does not name an object below the root is stale (vfs.ErrStale), whatever its
// MAC. With Options.Key, IDs survive the server: one that is authentic but unknown
// is looked up by file handle (with CAP_DAC_READ_SEARCH, on ext4, xfs and tmpfs), and else by
// one walk over the export. Names changed by other processes are followed by file handle
// too, and without it if the object is open or stays in its directory; else its ID is
// stale until it is looked up again.
//
// As root (or with CAP_CHOWN), new objects belong to whom the server says; else to
// the user of the process, and the export wants AllSquash to that user.
//
// Changes of names and attributes are on disk when a call returns, unless AsyncMeta is set.
// A failed fsync changes the write verifier. Data is read into and written from the
// transport's registered buffers, so no pages are lent: file memory cannot be pinned
// against truncation.
//
// Times are the kernel's. Before Linux 6.13 they move by ticks of some milliseconds, and two
// changes within one have the same ctime, which a guarded SETATTR cannot tell apart.
package dirfs
