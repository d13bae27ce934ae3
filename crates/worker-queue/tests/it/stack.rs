//! Behaviour of the stack alone.

use worker_queue::Stack;

#[test]
fn smoke() {
    let mut stack = Stack::new();
    stack.push('a', 1).unwrap();
    stack.push('b', 2).unwrap();
    assert_eq!(stack.pop(), Some('b'));
    stack.push('c', 3).unwrap();
    assert_eq!(stack.pop(), Some('c'));
    assert_eq!(stack.pop(), Some('a'));
    assert_eq!(stack.pop(), None);
}

#[test]
fn capacity() {
    let mut stack = Stack::default();
    for entry in 0..1000 {
        stack.push(entry, 0).unwrap();
    }
    assert_eq!(stack.capacity(), None);
}

#[test]
fn len_empty_full() {
    let mut stack = Stack::new();
    assert_eq!(
        (stack.len(), stack.is_empty(), stack.is_full()),
        (0, true, false)
    );
    stack.push((), 0).unwrap();
    assert_eq!(
        (stack.len(), stack.is_empty(), stack.is_full()),
        (1, false, false)
    );
    stack.pop();
    assert_eq!(
        (stack.len(), stack.is_empty(), stack.is_full()),
        (0, true, false)
    );
}

#[test]
fn hot_entries_stay_in_use_and_cold_entries_expire() {
    let mut stack = Stack::new();
    for worker in 0..4 {
        stack.push(worker, 0).unwrap();
    }
    for now in 1..100 {
        let hot = stack.pop().unwrap();
        assert_eq!(hot, 3);
        stack.push(hot, now).unwrap();
    }
    assert!(stack.drain_expired(50, usize::MAX).eq(0..3));
    assert_eq!(stack.oldest(), Some((&3, 99)));
}
