//! The heap, and the most of it that was ever in use.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicUsize, Ordering};

use embedded_alloc::LlffHeap;

/// The size of the heap in bytes.
const SIZE: usize = 6 * 1024;

struct Heap {
    heap: LlffHeap,
    peak: AtomicUsize,
}

#[global_allocator]
static HEAP: Heap = Heap { heap: LlffHeap::empty(), peak: AtomicUsize::new(0) };

static mut MEMORY: [MaybeUninit<u64>; SIZE / 8] = [MaybeUninit::uninit(); SIZE / 8];

// SAFETY: another allocator does the work.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract, which is the same.
        let memory = unsafe { self.heap.alloc(layout) };
        // No interrupt allocates.
        let peak = self.peak.load(Ordering::Relaxed).max(self.heap.used());
        self.peak.store(peak, Ordering::Relaxed);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { self.heap.dealloc(memory, layout) }
    }
}

/// Makes the heap usable. Call it once, before the first allocation.
pub fn start() {
    // SAFETY: nothing else uses this memory.
    unsafe { HEAP.heap.init(&raw mut MEMORY as usize, SIZE) }
}

/// Returns the number of bytes in use, with the allocator's own.
pub fn used() -> usize {
    HEAP.heap.used()
}

/// Returns the most bytes that were ever in use, with the allocator's own.
pub fn peak() -> usize {
    HEAP.peak.load(Ordering::Relaxed)
}
