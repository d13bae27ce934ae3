use std::cell::Cell;

std::thread_local! {
    /// The name and the bound of the running model, until its body takes them.
    static CALL: Cell<Option<(String, Option<usize>)>> = const { Cell::new(None) };
}

pub(crate) fn check(name: &str, preemptions: Option<usize>, body: fn()) {
    CALL.set(Some((name.to_owned(), preemptions)));
    body();
    assert_eq!(CALL.take(), None, "the body has run");
}

pub(crate) fn explore(name: &str, body: fn()) {
    check(name, None, body);
}

fn check_with_five(name: &str, preemptions: Option<usize>, body: fn(usize)) {
    CALL.set(Some((name.to_owned(), preemptions)));
    body(5);
    assert_eq!(CALL.take(), None, "the body has run");
}

#[testkit::model(preemptions = 3)]
fn a_model_is_checked_with_its_functions_name_and_its_bound() {
    let name = "a_model_is_checked_with_its_functions_name_and_its_bound";
    assert_eq!(CALL.take(), Some((name.to_owned(), Some(3))));
}

#[testkit::model]
fn a_model_without_a_bound_is_checked_without_one() {
    let name = "a_model_without_a_bound_is_checked_without_one";
    assert_eq!(CALL.take(), Some((name.to_owned(), None)));
}

#[testkit::model(preemptions = 1, check = check_with_five)]
fn a_model_takes_arguments_from_a_check_of_its_own(number: usize) {
    let name = "a_model_takes_arguments_from_a_check_of_its_own";
    assert_eq!(CALL.take(), Some((name.to_owned(), Some(1))));
    assert_eq!(number, 5);
}

#[testkit::scenario]
fn a_scenario_is_explored_with_its_functions_name() {
    let name = "a_scenario_is_explored_with_its_functions_name";
    assert_eq!(CALL.take(), Some((name.to_owned(), None)));
}
