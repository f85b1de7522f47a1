//! How much memory is used at most: an allocator that counts, and a stack that is painted.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use embedded_alloc::LlffHeap;

/// Behind RAM: the board's 16 MB, so that what a meter uses is not limited by what is measured.
const HEAP: usize = 0x2100_0000;
const HEAP_LENGTH: usize = 16 << 20;

/// How much of the stack is painted. The rest of RAM is far below it.
const STACK: usize = 256 << 10;
const PAINT: u32 = 0x5a5a_a5a5;

#[global_allocator]
static ALLOCATOR: Counting = Counting { heap: LlffHeap::empty(), used: AtomicUsize::new(0), most: AtomicUsize::new(0) };

struct Counting {
    heap: LlffHeap,
    used: AtomicUsize,
    most: AtomicUsize,
}

// SAFETY: every call goes to the heap unchanged; counting has no effect on it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = self.used.fetch_add(taken(layout), Ordering::Relaxed) + taken(layout);
        self.most.fetch_max(used, Ordering::Relaxed);
        // SAFETY: the caller's promises are the heap's.
        unsafe { self.heap.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.used.fetch_sub(taken(layout), Ordering::Relaxed);
        // SAFETY: the caller's promises are the heap's.
        unsafe { self.heap.dealloc(pointer, layout) }
    }
}

/// What the heap takes for a layout: multiples of eight bytes.
const fn taken(layout: Layout) -> usize {
    layout.size().next_multiple_of(8)
}

/// Gives the allocator its memory, and paints the stack below the caller. Called once, first of all.
pub fn prepare() {
    // SAFETY: nothing else uses this memory, and `main` calls this once.
    unsafe { ALLOCATOR.heap.init(HEAP, HEAP_LENGTH) }
    paint();
}

/// Starts a measurement: the heap's peak is what is used now, the stack's the caller's frame.
pub fn start() {
    ALLOCATOR.most.store(heap_used(), Ordering::Relaxed);
    paint();
}

/// Returns how many bytes of the heap are in use.
pub fn heap_used() -> usize {
    ALLOCATOR.used.load(Ordering::Relaxed)
}

/// Returns how many bytes of the heap were in use at most since [`start`].
pub fn heap_peak() -> usize {
    ALLOCATOR.most.load(Ordering::Relaxed)
}

/// Returns how many bytes below the top of the stack were written since it was painted.
pub fn stack_peak() -> usize {
    let top = stack_top();
    let clean = (top - STACK..top).step_by(4).find(|&at| {
        // SAFETY: the stack's memory, a word at a time.
        unsafe { ptr::read_volatile(at as *const u32) != PAINT }
    });
    top - clean.unwrap_or(top)
}

/// Returns how many bytes of RAM are static.
pub fn statics() -> usize {
    unsafe extern "C" {
        static __sdata: u8;
        static __ebss: u8;
    }
    (&raw const __ebss).addr() - (&raw const __sdata).addr()
}

fn stack_top() -> usize {
    unsafe extern "C" {
        static _stack_start: u8;
    }
    (&raw const _stack_start).addr()
}

/// Paints the stack from its far end up to below the current frame.
#[inline(never)]
fn paint() {
    let here = cortex_m::register::msp::read() as usize - 64;
    for at in (stack_top() - STACK..here).step_by(4) {
        // SAFETY: below the stack pointer nothing is in use, and no interrupt is enabled.
        unsafe { ptr::write_volatile(at as *mut u32, PAINT) }
    }
}
