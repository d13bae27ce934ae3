//! The window's order: what is ready early waits, and no more than the bound is held.

use crate::order::Order;

#[test]
fn values_leave_in_the_order_of_their_places_however_they_become_ready() {
    let mut order = Order::new(4);
    let places: Vec<_> = (0..4)
        .map(|_| order.reserve().expect("there is room"))
        .collect();

    assert!(!order.fill(places[2], 'c'));
    assert!(!order.fill(places[1], 'b'));
    assert_eq!(order.take_ready(), []);
    assert!(order.fill(places[0], 'a'));
    assert_eq!(order.take_ready(), ['a', 'b', 'c']);
    assert!(!order.is_empty());
    assert!(order.fill(places[3], 'd'));
    assert_eq!(order.take_ready(), ['d']);
    assert!(order.is_empty());
}

#[test]
fn a_full_window_gives_no_place_until_its_oldest_leaves() {
    let mut order = Order::new(2);
    let oldest = order.reserve().expect("there is room");
    let second = order.reserve().expect("there is room");
    assert_eq!(order.reserve(), None);

    order.fill(second, ());
    assert_eq!(order.take_ready(), []);
    assert_eq!(order.reserve(), None, "ready or not, it is held");

    order.fill(oldest, ());
    assert_eq!(order.reserve(), None, "what was not taken is held");
    assert_eq!(order.take_ready().len(), 2);
    assert_eq!(order.reserve(), Some(2));
}

#[test]
#[should_panic(expected = "only once")]
fn a_place_that_has_left_is_not_filled_again() {
    let mut order = Order::new(2);
    let place = order.reserve().expect("there is room");
    order.fill(place, ());
    order.take_ready();
    order.fill(place, ());
}
