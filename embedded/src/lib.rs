//! What both firmwares share: memory that is measured, and files of the host through semihosting.

#![no_std]

extern crate alloc;

pub mod files;
pub mod memory;

use core::panic::PanicInfo;

use cortex_m_semihosting::{debug, hprintln};

/// Reports a panic to the host, and ends with a failure.
#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    fail()
}

/// Ends with a failure.
pub fn fail() -> ! {
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}

/// Ends with success.
pub fn succeed() -> ! {
    debug::exit(debug::EXIT_SUCCESS);
    loop {}
}
