//! The ten calls that submit or spawn a task: their arguments and their errors.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use pool_core::{Accepts, FuncPool, JoinError, JoinHandle, SubmitError, WorkerPool};
use testkit::block_on;

use crate::support::pool;

/// Makes each of the ten calls with a `task()` at a pool that refuses it. Every call returns its
/// task.
fn all_come_back<R: Accepts<T>, T>(pool: &WorkerPool<R>, task: impl Fn() -> T) -> [T; 10] {
    let (long, late) = (Duration::MAX, Instant::now());
    let submits = [
        pool.submit(task()),
        pool.try_submit(task()),
        pool.submit_timeout(task(), long),
        pool.submit_timeout(task(), late),
        block_on(pool.submit_async(task())),
    ];
    let spawns = [
        pool.spawn(task()),
        pool.try_spawn(task()),
        pool.spawn_timeout(task(), long),
        pool.spawn_timeout(task(), late),
        block_on(pool.spawn_async(task())),
    ];
    let submits = submits.map(|refused| refused.unwrap_err().into_task());
    let spawns = spawns.map(|refused| refused.unwrap_err().into_task());
    let mut all = submits.into_iter().chain(spawns);
    std::array::from_fn(|_| all.next().unwrap())
}

#[testkit::test]
fn each_of_the_ten_calls_returns_a_refused_task_of_any_size() {
    let pool = pool(1);
    pool.release();
    let token = Arc::new(());
    let small = || {
        let token = Arc::clone(&token);
        move || Arc::strong_count(&token)
    };
    assert_eq!(all_come_back(&pool, small).map(|task| task()).len(), 10);
    let large = || {
        let (token, load) = (Arc::clone(&token), [7_u8; 2000]);
        move || (Arc::strong_count(&token), load[1999])
    };
    assert!(
        all_come_back(&pool, large)
            .map(|task| task())
            .iter()
            .all(|back| back.1 == 7)
    );
    let numbers = FuncPool::builder(|(_, n): (Arc<()>, [u8; 90])| n[89]);
    let numbers = numbers.capacity(1).build().unwrap();
    numbers.release();
    let back = all_come_back(&numbers, || (Arc::clone(&token), [9; 90]));
    assert!(back.iter().all(|(_, n)| n == &[9; 90]));
    drop(back);
    assert_eq!(Arc::strong_count(&token), 1, "none was left behind");
}

#[testkit::test]
fn a_submitted_closure_may_return_a_value() {
    let (pool, count) = (pool(1), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    pool.submit(move || counted.fetch_add(1, SeqCst)).unwrap();
    let counted = Arc::clone(&count);
    block_on(pool.submit_async(move || counted.fetch_add(1, SeqCst))).unwrap();
    pool.submit(|| panic!("a closure without a return type"))
        .unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((count.load(SeqCst), pool.stats().panicked), (2, 1));
}

/// Checked by the compiler: a typed pool's argument type is known, so arguments are coerced and
/// inferred.
#[testkit::test]
fn an_argument_is_coerced_as_in_any_function_call() {
    type Callback = Box<dyn FnOnce(u32) -> u32 + Send>;

    fn join<T>(handle: Result<JoinHandle<T>, SubmitError<impl Sized>>) -> Result<T, JoinError>
    where
        T: Send + 'static,
    {
        handle.unwrap().join()
    }

    static OWNED: LazyLock<String> = LazyLock::new(|| "fives".to_owned());
    let callbacks = FuncPool::builder(|call: Callback| call(1)).capacity(1);
    let callbacks = callbacks.build().unwrap();
    callbacks.submit(Box::new(|n| n)).unwrap();
    assert_eq!(join(callbacks.spawn(Box::new(|n| n + 1))).unwrap(), 2);

    let pointers = FuncPool::builder(|call: fn() -> u8| call()).capacity(1);
    let pointers = pointers.build().unwrap();
    assert_eq!(join(pointers.spawn(|| 3)).unwrap(), 3);

    let texts = FuncPool::builder(|text: String| text.len()).capacity(1);
    let texts = texts.build().unwrap();
    texts.submit("four".parse().unwrap()).unwrap();
    assert_eq!(join(texts.spawn("four".into())).unwrap(), 4);

    let slices = FuncPool::builder(|text: &'static str| text.len()).capacity(1);
    let slices = slices.build().unwrap();
    let owned: &'static String = &OWNED;
    assert_eq!(join(slices.spawn(owned)).unwrap(), 5);

    let lists = FuncPool::builder(|list: Vec<u8>| list.len()).capacity(1);
    let lists = lists.build().unwrap();
    assert_eq!(join(lists.spawn((0..6).collect())).unwrap(), 6);
    assert_eq!(join(lists.spawn(vec![])).unwrap(), 0);

    let options = FuncPool::builder(|n: Option<u64>| n).capacity(1);
    let options = options.build().unwrap();
    assert_eq!(join(options.spawn(None)).unwrap(), None);
}
