//! Errors passed on by `?`: they are `Send` and `Sync`, and do not contain the task's captures.

use std::cell::Cell;
use std::error::Error;
use std::panic::panic_any;

use pool_core::{
    BuildError, FuncPool, JoinError, Panicked, Pool, SubmitError, TuneError, WaitError,
};
use testkit::DropCounter;

use crate::support::{hold, pool};

/// The bounds of `Box<dyn Error + Send + Sync>` and of popular error types.
fn travels<E: Send + Sync + 'static>() {}

fn is_boxed_by_a_question_mark<E: Error + Send + Sync + 'static>() {
    travels::<E>();
}

#[test]
fn every_error_is_send_sync_and_boxable() {
    is_boxed_by_a_question_mark::<SubmitError>();
    is_boxed_by_a_question_mark::<JoinError>();
    is_boxed_by_a_question_mark::<WaitError>();
    is_boxed_by_a_question_mark::<BuildError>();
    is_boxed_by_a_question_mark::<TuneError>();
    travels::<Panicked>();
}

#[testkit::test]
fn a_join_error_passed_on_by_question_mark_displays_the_panic_message() {
    fn report(pool: &Pool) -> Result<u32, Box<dyn Error + Send + Sync>> {
        Ok(pool.spawn(|| -> u32 { panic!("no toner") })?.join()?)
    }
    let pool = Pool::builder().capacity(1).name("print").build().unwrap();
    let reported = report(&pool).unwrap_err();
    assert_eq!(
        reported.to_string(),
        "the task panicked in pool `print`: no toner"
    );
}

#[testkit::test]
fn a_submit_error_can_be_passed_on_by_question_mark_if_the_task_is_not_sync() {
    fn hand_over(pool: &Pool, cell: Cell<u32>) -> Result<(), Box<dyn Error + Send + Sync>> {
        pool.submit(move || cell.set(1))
            .map_err(SubmitError::without_task)?;
        Ok(())
    }
    let pool = pool(1);
    pool.release();
    let refused = hand_over(&pool, Cell::new(0)).unwrap_err();
    let reason = refused.downcast_ref::<SubmitError>();
    assert!(matches!(reason, Some(SubmitError::Released(()))));
}

#[testkit::test]
fn a_submit_error_splits_into_its_reason_and_the_task() {
    let pool = FuncPool::builder(drop::<String>).capacity(1);
    let pool = pool.build().unwrap();
    pool.release();
    let (reason, word) = pool.submit("late".to_owned()).unwrap_err().into_parts();
    assert_eq!(
        (reason.to_string(), &*word),
        ("the pool is released".to_owned(), "late")
    );
}

#[testkit::test]
fn removing_the_task_from_an_error_drops_its_captures() {
    let (pool, drops) = (pool(1), DropCounter::new());
    let gate = hold(&pool, 1);
    let token = drops.token();
    let refused = pool.try_submit(move || drop(token)).unwrap_err();
    assert_eq!(drops.alive(), 1);
    assert!(refused.without_task().is_full());
    assert_eq!(drops.alive(), 0);
    gate.open();
}

#[testkit::test]
fn the_message_of_a_panic_is_available_for_each_string_type() {
    fn panicked(pool: &Pool, task: impl FnOnce() + Send + 'static) -> Panicked {
        match pool.spawn(task).unwrap().join() {
            Err(JoinError::Panicked(panicked)) => panicked,
            other => panic!("{other:?}"),
        }
    }
    let pool = pool(1);
    let literal = panicked(&pool, || panic_any("literal"));
    let formatted = panicked(&pool, || panic_any(String::from("formatted")));
    let mut neither = panicked(&pool, || panic_any(7_u8));
    assert_eq!(literal.message(), Some("literal"));
    assert_eq!(formatted.message(), Some("formatted"));
    assert_eq!(neither.message(), None);
    assert_eq!(neither.payload_mut().downcast_mut::<u8>(), Some(&mut 7));
    let text = formatted.into_payload().downcast::<String>();
    assert_eq!(*text.unwrap(), "formatted", "the payload is unchanged");
}
