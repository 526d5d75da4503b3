//go:build darwin || freebsd

package localdisk

import "syscall"

// Has reports whether path is known to lie on a disk of this machine.
func Has(path string) bool {
	const local = 0x1000 // MNT_LOCAL
	var s syscall.Statfs_t
	return syscall.Statfs(path, &s) == nil && uint64(s.Flags)&local != 0
}
