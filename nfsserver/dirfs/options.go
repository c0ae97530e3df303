package dirfs

// Options are what New needs; zero values are the defaults.
type Options struct {
	ReadOnly    bool // refuse all changes (vfs.ErrReadOnly)
	CrossMounts bool // export what is mounted below the root too; else its names are hidden
	Devices     bool // let Mknod make block and character devices
	AsyncMeta   bool // do not wait for the disk when names or attributes change (exports(5) async, without the data)

	// MaxOpen bounds the descriptors kept open for data; 0 is 512. A call in
	// progress holds up to four more.
	MaxOpen int

	// Key authenticates IDs. Empty is a random key: IDs end with this FS. With the same
	// key, IDs hold in a later FS of the same directory. Keep it secret.
	Key []byte

	// Boot is the first write verifier; 0 is random. It must differ from that of an earlier
	// FS of the same directory.
	Boot uint64
}

const defaultMaxOpen = 512
