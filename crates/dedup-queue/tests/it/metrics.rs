//! The events that metrics receive.

use std::sync::Arc;
use std::time::Duration;

use dedup_queue::{DedupRetryQueue, Figures, ManualClock, Metrics, RecordingMetrics, Retrying};

use crate::support::{Journal, MS, Queue, get};

const MICRO: Duration = Duration::from_micros(1);

fn queue() -> (Queue<Retrying>, ManualClock, Arc<RecordingMetrics>) {
    let (clock, metrics) = (ManualClock::new(), Arc::new(RecordingMetrics::new()));
    let queue = DedupRetryQueue::<&'static str>::builder()
        .clock(clock.clone())
        .name("pods")
        .metrics(Arc::clone(&metrics))
        .build();
    (queue, clock, metrics)
}

#[test]
fn metrics_receive_each_event_with_its_exact_time() {
    let (queue, clock, metrics) = queue();
    let told = || metrics.of("pods");

    queue.add("foo").unwrap();
    assert_eq!((told().adds_total, told().depth), (1, 1));
    clock.advance(50 * MICRO);

    let held = get(&queue);
    assert_eq!(told().depth, 0);
    assert_eq!(told().queue_duration_seconds.count, 1);
    assert_eq!(told().queue_duration_seconds.sum, 50 * MICRO);

    // Added five times while it is held: one more delivery.
    for _ in 0..5 {
        queue.add("foo").unwrap();
    }
    assert_eq!((told().adds_total, told().depth), (2, 1));
    clock.advance(25 * MICRO);

    held.done();
    assert_eq!(told().work_duration_seconds.count, 1);
    assert_eq!(told().work_duration_seconds.sum, 25 * MICRO);

    // It has waited since it was added, not since it was released.
    let held = get(&queue);
    assert_eq!(told().queue_duration_seconds.sum, 75 * MICRO);
    assert_eq!(told().queue_duration_seconds.max, 50 * MICRO);
    assert_eq!(told().depth, 0);

    // Work in progress is reported on request.
    clock.advance(MS);
    assert_eq!(told().unfinished_work_seconds, Duration::ZERO);
    queue.report_unfinished();
    assert_eq!(told().unfinished_work_seconds, MS);
    assert_eq!(told().longest_running_processor_seconds, MS);
    held.done();
    assert_eq!(told().work_duration_seconds.sum, MS + 25 * MICRO);
    queue.report_unfinished();
    assert_eq!(told().unfinished_work_seconds, Duration::ZERO);
    assert_eq!(told().retries_total, 0);
}

#[test]
fn metrics_sum_the_held_times_and_report_the_longest() {
    let (queue, clock, metrics) = queue();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    let a = get(&queue);
    clock.advance(MS);
    let b = get(&queue);
    clock.advance(MS);
    let _c = get(&queue);
    drop(b);
    clock.advance(MS);
    queue.report_unfinished();
    assert_eq!(metrics.of("pods").unfinished_work_seconds, 4 * MS);
    assert_eq!(metrics.of("pods").longest_running_processor_seconds, 3 * MS);
    drop(a);
    queue.report_unfinished();
    assert_eq!(metrics.of("pods").longest_running_processor_seconds, MS);
}

#[test]
fn the_waiting_time_of_a_delayed_key_starts_when_it_falls_due() {
    let (queue, clock, metrics) = queue();
    queue.add_after("a", 10 * MS).unwrap();
    let told = metrics.of("pods");
    assert_eq!((told.adds_total, told.depth, told.retries_total), (0, 0, 1));
    clock.advance(13 * MS);
    let held = get(&queue);
    assert_eq!(metrics.of("pods").queue_duration_seconds.sum, 3 * MS);
    assert_eq!(metrics.of("pods").adds_total, 1);
    held.retry();
    queue.add_rate_limited("b").unwrap();
    assert_eq!(metrics.of("pods").retries_total, 3);
    assert_eq!(metrics.of("pods").adds_total, 1);
}

#[test]
fn removed_and_left_over_keys_do_not_count_towards_the_depth() {
    let (queue, clock, metrics) = queue();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    let _held = get(&queue);
    queue.add("a").unwrap();
    assert_eq!(metrics.of("pods").depth, 3);
    queue.remove(&"b");
    queue.remove(&"a");
    assert_eq!(metrics.of("pods").depth, 1);
    queue.add("a").unwrap();
    queue.drain_timeout(sync_shim::Clock::now(&clock));
    assert_eq!(metrics.of("pods").depth, 0);
    assert_eq!(metrics.of("pods").adds_total, 5);
}

/// client-go has a ticker that must be stopped. Here, no thread reports events.
#[test]
fn metrics_receive_events_only_from_operations() {
    struct Calls(Journal<&'static str>);
    impl Metrics for Calls {
        fn unfinished_work_seconds(&self, _: &str, _: Duration) {
            self.0.write("unfinished");
        }
    }
    let (calls, clock) = (Journal::new(), ManualClock::new());
    let queue = DedupRetryQueue::<&'static str>::builder()
        .clock(clock.clone())
        .metrics(Calls(calls.clone()))
        .build();
    queue.add("a").unwrap();
    let _held = get(&queue);
    clock.advance(Duration::from_secs(3600));
    assert_eq!(calls.entries(), [""; 0]);
    queue.report_unfinished();
    queue.shut_down();
    clock.advance(Duration::from_secs(3600));
    assert_eq!(calls.entries(), ["unfinished"]);
    assert_eq!(clock.sleepers(), 0);
}

#[test]
fn metrics_tell_queues_apart_by_name() {
    let (_queue, clock, metrics) = queue();
    let other: Queue<Retrying> = DedupRetryQueue::<&'static str>::builder()
        .clock(clock.clone())
        .name("nodes")
        .metrics(Arc::clone(&metrics))
        .build();
    other.add("a").unwrap();
    assert_eq!(metrics.of("nodes").adds_total, 1);
    assert_eq!(metrics.of("pods"), Figures::default());
    let silent: Queue<Retrying> = DedupRetryQueue::<&'static str>::builder()
        .clock(clock)
        .build();
    silent.add("a").unwrap();
    silent.report_unfinished();
}

#[test]
fn durations_are_counted_in_decades() {
    let metrics = RecordingMetrics::new();
    for waited in [
        Duration::ZERO,
        MICRO,
        MICRO * 2,
        MS,
        Duration::from_secs(3600),
    ] {
        metrics.queue_duration_seconds("q", waited);
    }
    let seen = metrics.of("q").queue_duration_seconds;
    assert_eq!(seen.buckets, [2, 1, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!((seen.count, seen.max), (5, Duration::from_secs(3600)));
    assert!(format!("{metrics:?}").starts_with("RecordingMetrics({\"q\": "));
}

#[test]
fn forgotten_queues_leave_no_metrics() {
    let metrics = Arc::new(RecordingMetrics::new());
    let kept = || format!("{metrics:?}").matches("adds_total").count();
    for n in 0..100 {
        let name = format!("of {n}");
        let built = DedupRetryQueue::<u32>::builder().name(&*name);
        let queue = built.metrics(Arc::clone(&metrics)).build();
        queue.add(1).unwrap();
        queue.add(2).unwrap();
        drop(queue);
        assert_eq!((metrics.of(&name).adds_total, kept()), (2, 1));
        assert_eq!(metrics.forget(&name).adds_total, 2);
        assert_eq!((metrics.of(&name), kept()), (Figures::default(), 0));
    }
}
