//! Batches: the pool accepts a prefix of the tasks, as many as have room.

use super::figures::Expected;
use super::given::Given;
use super::job::Id;
use super::model::Model;
use super::patience::lock;
use super::program::Policy;
use super::subject::{Answer, How, Why};
use super::twinned::Twinned;
use super::walk::Walk;

impl Model {
    /// At most one call is refused, however many tasks are returned.
    fn hand_batch(&mut self, ids: &[Id]) {
        let mut refused = None;
        for &id in ids {
            self.know(id, Given::default());
            if let Some(why) = refused {
                self.answers.push((id, Expected::Refused(why, id)));
                continue;
            }
            refused = if !self.open {
                Some(Why::Released)
            } else if !self.has_room() {
                Some(Why::Full)
            } else {
                let entered = self.enter(|model| model.accept(id, false));
                (!entered).then_some(Why::NoThread)
            };
            match refused {
                Some(why) => self.refuse(id, why),
                None => self.rouse(),
            }
        }
        self.settle();
    }
}

impl<K: Twinned> Walk<K> {
    pub(super) fn hand_batch(&mut self, tasks: usize, waits: bool) {
        let mut jobs = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..tasks {
            jobs.push(self.job());
            ids.push(self.last());
        }
        // Other policies would wait, or would treat the rest in a way that races with the workers
        // that pop the first tasks.
        let how = if waits && self.settings.on_full == Policy::Refuse {
            How::Wait
        } else {
            How::Try
        };
        self.model.hand_batch(&ids);
        let (submitted, refused) = K::submit_batch(&self.pool, jobs, how);
        let mut answers = lock(&self.answers);
        let (accepted, back) = ids.split_at(submitted);
        answers.extend(accepted.iter().map(|&id| (id, Answer::Accepted(None))));
        if let Some((why, refused)) = refused {
            assert_eq!(refused, back, "the rest, in its order");
            answers.extend(refused.into_iter().map(|id| (id, Answer::Refused(why, id))));
        }
    }
}
