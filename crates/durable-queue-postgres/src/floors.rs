//! The floor of each queue, from which claims continue: the result of the function `turn`, lowered by later
//! announcements.
//!
//! The function finds floors and decides how long they are valid, by the server's clock.
//!
//! # Invariants
//! 1. A queue has a floor only while there are many index entries of finished jobs in front. Otherwise it has
//!    no entry here.
//! 2. If this process learns of a job after a turn has begun, the floor of the next turn is not above that
//!    job.

use std::collections::BTreeMap;

use durable_queue::StoreTime;
use sync_shim::Mutex;

/// As the function returns it: time and id for free jobs, time and id for urgent jobs, time for leased jobs,
/// and the time at which it was found.
type Floor = [i64; 6];

/// Below all jobs: the next turn finds a new floor.
const START: i64 = i64::MIN;

#[derive(Debug)]
struct Place {
    floor: Floor,
    /// The earliest time announced since the last turn began.
    announced: i64,
}

#[derive(Debug)]
pub(super) struct Floors(Mutex<BTreeMap<String, Place>>);

impl Floors {
    pub(super) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the floor for a turn that begins.
    pub(super) fn begin(&self, queue: &str) -> Option<Vec<i64>> {
        let mut places = self.0.lock();
        let place = places.get_mut(queue)?;
        place.announced = i64::MAX;
        Some(place.floor.to_vec())
    }

    /// Stores the result of a turn. Returns the floor that is valid from now on.
    pub(super) fn end(&self, queue: &str, answer: Option<&[i64]>) -> Option<Vec<i64>> {
        let mut places = self.0.lock();
        let Some(floor) = answer.and_then(|answer| Floor::try_from(answer).ok()) else {
            places.remove(queue);
            return None;
        };
        let announced = places.get(queue).map_or(i64::MAX, |place| place.announced);
        let floor = lowered(floor, announced);
        places.insert(queue.to_owned(), Place { floor, announced });
        Some(floor.to_vec())
    }

    /// A job may be due at `due`, earlier than known.
    pub(super) fn lower(&self, queue: &str, due: StoreTime) {
        if let Some(place) = self.0.lock().get_mut(queue) {
            place.lower(due.as_micros());
        }
    }

    /// Announcements may have been missed.
    pub(super) fn lower_all(&self) {
        self.0
            .lock()
            .values_mut()
            .for_each(|place| place.lower(START));
    }
}

impl Place {
    fn lower(&mut self, due: i64) {
        self.announced = self.announced.min(due);
        self.floor = lowered(self.floor, due);
    }
}

fn lowered(mut floor: Floor, due: i64) -> Floor {
    for at in [0, 2] {
        if due <= floor[at] {
            (floor[at], floor[at + 1]) = (due, 0);
        }
    }
    floor
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    const FLOOR: Floor = [50, 7, 60, 8, 70, 100];

    fn at(micros: i64) -> StoreTime {
        StoreTime::from_micros(micros)
    }

    #[test]
    fn a_queue_without_a_floor_has_no_place() {
        let floors = Floors::new();
        floors.lower("queue", at(1));
        floors.lower_all();
        assert_eq!(floors.begin("queue"), None);
        assert_eq!(floors.end("queue", Some(&FLOOR)).unwrap(), FLOOR);
        assert_eq!(floors.begin("other"), None);
        assert_eq!(floors.end("queue", None), None);
        assert!(floors.0.lock().is_empty());
    }

    #[test]
    fn an_earlier_announcement_lowers_the_floor_and_a_later_one_does_not() {
        let floors = Floors::new();
        floors.end("queue", Some(&FLOOR));
        floors.lower("queue", at(61));
        assert_eq!(floors.begin("queue").unwrap(), FLOOR);
        floors.lower("queue", at(50));
        assert_eq!(floors.begin("queue").unwrap(), [50, 0, 50, 0, 70, 100]);
        floors.lower_all();
        let start = [START, 0, START, 0, 70, 100];
        assert_eq!(floors.begin("queue").unwrap(), start);
    }

    #[test]
    fn an_announcement_during_a_turn_lowers_what_it_answers_and_no_later_turn() {
        let floors = Floors::new();
        floors.end("queue", Some(&FLOOR));
        floors.begin("queue");
        floors.lower("queue", at(40));
        let lowered = [40, 0, 40, 0, 70, 200];
        let answer = [55, 1, 65, 2, 70, 200];
        assert_eq!(floors.end("queue", Some(&answer)).unwrap(), lowered);
        assert_eq!(floors.begin("queue").unwrap(), lowered);
        assert_eq!(floors.end("queue", Some(&answer)).unwrap(), answer);
    }
}
