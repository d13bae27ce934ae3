//! Memory that a heap keeps. A separate binary, because it replaces the global allocator.

use std::sync::atomic::Ordering::SeqCst;

use delay_queue::DelayHeap;
use testkit::{BYTES, CountingAllocator, Rng};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const MILLION: usize = 1_000_000;

/// A single test, because the counter counts all threads.
#[test]
fn memory() {
    for due in [uniform as fn(&mut Rng, u64) -> u64, rising, equal] {
        an_entry_costs_no_more_than_32_bytes_beside_its_value::<u64>(due);
        an_entry_costs_no_more_than_32_bytes_beside_its_value::<u8>(due);
        an_entry_costs_no_more_than_32_bytes_beside_its_value::<[u32; 3]>(due);
        a_million_entries_give_their_memory_back(due);
    }
    cancelling_and_pushing_in_turn_does_not_grow();
    slots_whose_generations_end_are_not_used_up_one_by_one();
    an_empty_heap_that_was_shrunk_begins_with_new_generations();
}

/// One entry stays, another is pushed and removed repeatedly, and memory is freed each time.
fn slots_whose_generations_end_are_not_used_up_one_by_one() {
    let before = BYTES.load(SeqCst);
    let mut heap = DelayHeap::beginning_with(0, u32::MAX - 500);
    heap.push(0_u64, 0);
    for _ in 0..10_000 {
        let id = heap.push(1, 1);
        heap.remove(id);
        heap.shrink_to_fit();
    }
    let bytes = BYTES.load(SeqCst) - before;
    println!("{bytes} bytes when generations have ended twenty times");
    assert!(bytes < 10_000, "{bytes} bytes");
}

fn an_empty_heap_that_was_shrunk_begins_with_new_generations() {
    let before = BYTES.load(SeqCst);
    let mut heap = DelayHeap::beginning_with(0, u32::MAX - 1);
    // None of the slots whose generations have ended is kept,
    for _ in 0..1_000 {
        heap.push(0_u64, 0);
        heap.pop();
        heap.shrink_to_fit();
    }
    // and none of the slots after them ends as soon.
    for _ in 0..1_000 {
        heap.push(0, 0);
        heap.pop();
    }
    let bytes = BYTES.load(SeqCst) - before;
    assert!(bytes < 1_000, "{bytes} bytes");
}

fn uniform(rng: &mut Rng, _: u64) -> u64 {
    rng.next_u64() >> 20
}

fn rising(_: &mut Rng, value: u64) -> u64 {
    value
}

fn equal(_: &mut Rng, _: u64) -> u64 {
    7
}

fn an_entry_costs_no_more_than_32_bytes_beside_its_value<T: Copy + Default>(
    due: fn(&mut Rng, u64) -> u64,
) {
    let mut rng = Rng::new(1);
    for reserved in [0, 100_000, 300_000] {
        let before = BYTES.load(SeqCst);
        let mut heap = DelayHeap::with_capacity(reserved);
        let mut count = 0;
        while heap.len() < 100_000 || heap.len() < heap.capacity() {
            heap.push(T::default(), due(&mut rng, count));
            count += 1;
        }
        let bytes = BYTES.load(SeqCst) - before;
        check(bytes, heap.len(), size_of::<T>());
        // Even if each entry has been moved.
        let ids: Vec<_> = heap.iter().map(|entry| entry.id).collect();
        let listed = BYTES.load(SeqCst) - before - bytes;
        for id in &ids {
            heap.reset(*id, due(&mut rng, count));
            count += 1;
        }
        check(
            BYTES.load(SeqCst) - before - listed,
            heap.len(),
            size_of::<T>(),
        );
    }
}

fn check(bytes: usize, entries: usize, value: usize) {
    let hundredths = bytes * 100 / entries - 100 * value.next_multiple_of(8);
    println!("{hundredths} hundredths of a byte beside the value, at {entries} entries");
    assert!(hundredths <= 3_200, "{hundredths}");
}

fn a_million_entries_give_their_memory_back(due: fn(&mut Rng, u64) -> u64) {
    let mut rng = Rng::new(2);
    let before = BYTES.load(SeqCst);
    let mut heap = DelayHeap::new();
    let ids = (0..MILLION as u64).map(|value| heap.push(value, due(&mut rng, value)));
    let ids: Vec<_> = ids.collect();
    let listed = ids.capacity() * 16;
    // A thousand entries stay: the first ones, because entries do not change their places.
    for id in &ids[1_000..] {
        assert!(heap.remove(*id).is_some());
    }
    heap.shrink_to_fit();
    assert_eq!((heap.len(), heap.capacity()), (1_000, 1_000));
    let bytes = BYTES.load(SeqCst) - before - listed;
    println!("{bytes} bytes for the thousand that stay of a million");
    assert!(bytes < 100_000, "{bytes} bytes");
    assert!(ids[..1_000].iter().all(|id| heap.contains(*id)));
    for id in &ids[..1_000] {
        heap.remove(*id);
    }
    heap.shrink_to_fit();
    assert_eq!(heap.capacity(), 0);
    assert!(BYTES.load(SeqCst) - before - listed < 1_000);
}

fn cancelling_and_pushing_in_turn_does_not_grow() {
    let mut rng = Rng::new(3);
    let mut heap = DelayHeap::new();
    let mut ids: Vec<_> = (0..100_000)
        .map(|_| heap.push(0_u64, rng.next_u64() >> 20))
        .collect();
    let capacity = heap.capacity();
    let before = BYTES.load(SeqCst);
    for _ in 0..MILLION {
        let index = rng.below(ids.len());
        heap.remove(ids[index]);
        ids[index] = heap.push(0, rng.next_u64() >> 20);
    }
    let grown = BYTES.load(SeqCst).saturating_sub(before);
    println!("{grown} bytes more after a million pairs");
    assert!(grown < 500_000, "{grown} bytes");
    assert_eq!(heap.capacity(), capacity);
}
