//! Files of the host, read through semihosting.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use cortex_m_semihosting::syscall;

/// Returns a file of the host.
///
/// # Panics
///
/// If it cannot be read.
pub fn read(path: &str) -> Vec<u8> {
    const READ_BINARY: usize = 1;
    let name = format!("{path}\0");
    // SAFETY: the host reads `name`, and its length without the zero at the end.
    let handle = unsafe { syscall!(OPEN, name.as_ptr(), READ_BINARY, name.len() - 1) };
    assert_ne!(handle, usize::MAX, "{path} cannot be opened");
    // SAFETY: the handle is open.
    let length = unsafe { syscall!(FLEN, handle) };
    let mut bytes = vec![0; length];
    // SAFETY: the host writes `length` bytes at most, which there is room for.
    let left = unsafe { syscall!(READ, handle, bytes.as_mut_ptr(), length) };
    assert_eq!(left, 0, "{path} cannot be read");
    // SAFETY: the handle is open, and not used again.
    unsafe { syscall!(CLOSE, handle) };
    bytes
}

