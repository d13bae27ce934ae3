//! The threads of the test's process.

/// Returns the names of this process's threads, of which Linux keeps 15 bytes. A thread that ends at the same time
/// may be missing.
///
/// # Panics
/// Without procfs.
pub fn thread_names() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").expect("procfs is mounted");
    let names = threads.filter_map(|thread| {
        let name = thread.expect("procfs can be listed").path().join("comm");
        let name = std::fs::read_to_string(name).ok()?;
        Some(name.trim_end().to_owned())
    });
    names.collect()
}
