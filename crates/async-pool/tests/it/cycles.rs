//! Pools that are released and rebooted many times.

use std::time::Duration;

use async_pool::AsyncPool;
use futures_lite::future::block_on;

#[testkit::test]
#[cfg(target_os = "linux")]
fn cycles_of_release_and_reboot_leave_no_threads_and_no_stacks() {
    /// Number of threads, and of mappings of memory.
    fn footprint() -> (usize, usize) {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        (threads, maps.lines().count())
    }
    let pool = AsyncPool::builder().workers(2).build().unwrap();
    let ways: [&dyn Fn(); 4] = [
        &|| pool.wait_released().unwrap(),
        &|| block_on(pool.wait_released_async()).unwrap(),
        &|| pool.wait_released_timeout(Duration::from_secs(60)).unwrap(),
        &|| pool.wait_idle().unwrap(), // The reboot finds workers that have not ended.
    ];
    let cycles = |number: usize| {
        for n in 0..number {
            pool.submit(async {}).unwrap();
            pool.release();
            ways[n % ways.len()]();
            assert!(pool.reboot().unwrap());
        }
    };
    cycles(100);
    let (threads, maps) = footprint();
    cycles(10_000);
    let (threads_after, maps_after) = footprint();
    // Other tests of this process start threads, too. Each kept stack would be a mapping: two per cycle.
    assert!(threads_after < threads + 500, "{threads} {threads_after}");
    assert!(maps_after < maps + 1_000, "{maps} {maps_after}");
}
