//! The wake list: which waiters it wakes, how often, and in which order.

use std::sync::{Arc, Mutex};

use sync_shim::Parker;
use sync_shim::waiter::{Waiter, WakeList};
use testkit::{CountingWaker, waker_fn};

fn parkers(count: usize) -> Vec<Parker> {
    (0..count).map(|_| Parker::new()).collect()
}

/// Counts the parkers that hold a token, and takes the tokens.
fn woken(parkers: &[Parker]) -> usize {
    parkers.iter().filter(|parker| parker.take_token()).count()
}

#[test]
fn a_thread_gets_a_token_and_a_task_is_woken() {
    let (parker, task) = (Parker::new(), CountingWaker::new());
    Waiter::Thread(parker.clone()).wake();
    Waiter::Task(task.waker()).wake();
    assert!(parker.take_token());
    assert_eq!((task.wakes(), task.wakers()), (1, 0));
}

#[test]
fn every_thread_and_every_task_of_a_list_is_woken_once() {
    for count in 0..4 {
        let (threads, tasks) = (parkers(count), CountingWaker::new());
        let mut list = WakeList::new();
        for parker in &threads {
            list.push(Waiter::Thread(parker.clone()));
            list.push(Waiter::Task(tasks.waker()));
        }
        assert_eq!(list.is_empty(), count == 0);
        list.wake_all();
        assert!(list.is_empty());
        assert_eq!((woken(&threads), tasks.wakes()), (count, count));
        assert_eq!(tasks.wakers(), 0);
        list.wake_all();
        assert_eq!((woken(&threads), tasks.wakes()), (0, count));
    }
}

#[test]
fn wake_threads_wakes_threads_and_internal_wakers_and_keeps_the_tasks() {
    for count in 1..4 {
        let (threads, internal, tasks) =
            (parkers(count), CountingWaker::new(), CountingWaker::new());
        let mut list = WakeList::new();
        for parker in &threads {
            list.push(Waiter::Task(tasks.waker()));
            list.push_internal(internal.waker());
            list.push_thread(parker.clone());
        }
        list.wake_threads();
        assert_eq!((woken(&threads), internal.wakes()), (count, count));
        assert_eq!(tasks.wakes(), 0);
        assert!(list.has_tasks() && !list.is_empty());
        list.wake_all();
        assert_eq!((internal.wakes(), tasks.wakes()), (count, count));
        assert!(!list.has_tasks() && list.is_empty());
    }
}

#[test]
fn all_threads_are_awake_before_the_first_waker_runs() {
    let (threads, internal) = (parkers(3), CountingWaker::new());
    let (seen, inside) = (Arc::new(Mutex::new(Vec::new())), threads.clone());
    let (noted, counted) = (Arc::clone(&seen), internal.clone());
    let task = waker_fn(move || {
        let found = (woken(&inside), counted.wakes());
        noted.lock().unwrap().push(found);
    });
    let mut list = WakeList::new();
    list.push(Waiter::Task(task));
    for parker in &threads {
        list.push_thread(parker.clone());
    }
    list.push_internal(internal.waker());
    list.wake_all();
    assert_eq!(*seen.lock().unwrap(), [(3, 1)]);
}

#[test]
fn joined_lists_wake_their_tasks_in_order() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let task = |number: u32| {
        let order = Arc::clone(&order);
        Waiter::Task(waker_fn(move || order.lock().unwrap().push(number)))
    };
    for split in 0..=4 {
        let (mut list, mut later) = (WakeList::new(), WakeList::new());
        let (threads, internal) = (parkers(4), CountingWaker::new());
        for (number, parker) in (0..).zip(&threads) {
            let list = if number < split {
                &mut list
            } else {
                &mut later
            };
            list.push(task(number));
            list.push_thread(parker.clone());
            list.push_internal(internal.waker());
        }
        list.append(later);
        list.wake_all();
        assert_eq!((woken(&threads), internal.wakes()), (4, 4), "at {split}");
        assert_eq!(std::mem::take(&mut *order.lock().unwrap()), [0, 1, 2, 3]);
    }
}

#[test]
fn tasks_behind_a_waker_that_panics_are_woken() {
    let tasks = CountingWaker::new();
    let mut list = WakeList::new();
    for _ in 0..2 {
        list.push(Waiter::Task(waker_fn(|| panic!("a panic of the waker"))));
        list.push(Waiter::Task(tasks.waker()));
    }
    list.wake_all();
    assert_eq!((tasks.wakes(), tasks.wakers()), (2, 0));
}

/// Each critical section of a busy pool makes a list, and each spawned task holds a waiter.
#[test]
fn a_list_is_four_words_and_a_waiter_two() {
    let words = |bytes: usize| bytes / size_of::<usize>();
    assert_eq!(words(size_of::<WakeList>()), 4);
    assert_eq!(words(size_of::<Waiter>()), 2);
}
