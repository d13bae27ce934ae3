//! Results of a mapping that were not fetched, in the order of the items or of their ends.

use std::collections::VecDeque;
use std::mem;

use super::Order;

pub(super) enum Results<R> {
    Ordered {
        /// Number of the first item whose result was not fetched.
        head: u64,
        /// One place per started item, beginning with `head`.
        places: VecDeque<Option<R>>,
    },
    Unordered(VecDeque<R>),
}

impl<R> Results<R> {
    pub(super) fn new(order: Order) -> Self {
        match order {
            Order::Ordered => Self::Ordered {
                head: 0,
                places: VecDeque::new(),
            },
            Order::Unordered => Self::Unordered(VecDeque::new()),
        }
    }

    /// Adds a place for an item that starts, and returns its number.
    pub(super) fn start(&mut self) -> u64 {
        match self {
            Self::Ordered { head, places } => {
                places.push_back(None);
                *head + places.len() as u64 - 1
            }
            Self::Unordered(_) => 0,
        }
    }

    pub(super) fn keep(&mut self, number: u64, result: R) {
        match self {
            Self::Ordered { head, places } => {
                let at = usize::try_from(number - *head);
                let place = at.ok().and_then(|at| places.get_mut(at));
                *place.expect("an item's place stands until it is fetched") = Some(result);
            }
            Self::Unordered(results) => results.push_back(result),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        match self {
            Self::Ordered { places, .. } => matches!(places.front(), Some(Some(_))),
            Self::Unordered(results) => !results.is_empty(),
        }
    }

    /// Appends the results that are ready to `fetched`.
    pub(super) fn fetch(&mut self, fetched: &mut VecDeque<R>) {
        match self {
            Self::Ordered { head, places } => {
                while let Some(result) = places.front_mut().and_then(Option::take) {
                    places.pop_front();
                    *head += 1;
                    fetched.push_back(result);
                }
            }
            Self::Unordered(results) => fetched.append(results),
        }
    }

    pub(super) fn take_all(&mut self) -> Self {
        mem::replace(self, Self::Unordered(VecDeque::new()))
    }
}
