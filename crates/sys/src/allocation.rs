//! What becomes of freed memory.

/// From this size on, memory returns to the system, in bytes: the value that the C library begins with.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// From now on, large buffers return to the system when they are freed. By default, glibc keeps them for later, up to 32 MiB in each of
/// several places, once it has seen that a program frees and allocates them again and again. This costs time for each new one, so it is for
/// processes that have little memory. Other C libraries need nothing.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the function takes two numbers, and changes a parameter of the allocator under its lock. Any value is
    // allowed for this one; allocations that exist stay as they are.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}
