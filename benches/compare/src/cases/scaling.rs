//! Does a task cost more if there are many workers?

use crate::cases::empty::Empty;
use crate::peer::Shape;
use crate::peers::{MANY_THREADS, with};
use measure::case::Case;

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for producers in [1, 4] {
        for threads in [4, 1_000, 10_000] {
            let case = Case::new(
                format!("scaling/{threads}w/{producers}p"),
                "Many workers",
                "What does an empty task cost with this many live workers?",
                MANY_THREADS,
                move |run| {
                    let job = Empty {
                        run,
                        threads,
                        producers,
                    };
                    with(&run.pool, Shape::unlimited(threads), job)
                },
            );
            cases.push(case);
        }
    }
    cases
}
