//! The state of single jobs: open, done and kept, dead, or gone.

use std::time::Duration;

use durable_queue::DurableQueue;
use durable_queue_sqlite::SqliteStore;
use serde_json::json;

use crate::Shell;

/// Any bytes, which no text could contain.
const RESULT: [u8; 4] = [0, b'\n', 0xFF, b'x'];

/// A queue that keeps done jobs.
fn keeping(shell: &Shell) -> DurableQueue<String, SqliteStore> {
    let store = SqliteStore::open(shell.file()).unwrap();
    let builder = DurableQueue::builder("mails", store);
    builder.keep_done(Duration::from_secs(600)).build().unwrap()
}

#[test]
fn a_job_is_shown_open_then_done_dead_or_gone() {
    let shell = Shell::new();
    shell.ok(&["push", "done", "--key", "k\u{7}"]);
    shell.ok(&["push", "dead"]);
    let queue = keeping(&shell);
    let [done, dead] = [(); 2].map(|()| queue.take().unwrap());
    assert_eq!(shell.ok(&["show", "1"]), "1 open\n");
    let expected = json!({ "id": 2, "state": "open" });
    assert_eq!(shell.json(&["show", "2"]), [expected]);
    done.set_result(RESULT).unwrap();
    done.ack().unwrap();
    dead.bury("no\nluck").unwrap();
    shell.ok(&["push", "not kept"]);
    shell.queue().take().unwrap().ack().unwrap();

    let text = shell.ok(&["show", "1"]);
    assert!(text.starts_with("1 done 2"), "{text}");
    assert!(text.contains("Z, attempt 1 took "), "{text}");
    assert!(
        text.contains("s, result of 4 bytes, kept until 2"),
        "{text}"
    );
    let mut shown = shell.json(&["fate", "1"]).remove(0);
    let took = shown["took_seconds"].take();
    assert!(took.as_f64().is_some_and(|took| took >= 0.0), "{took}");
    for time in ["finished", "until"] {
        let time = shown[time].take();
        assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    }
    let expected = json!({
        "id": 1,
        "state": "done",
        "finished": null,
        "took_seconds": null,
        "attempts": 1,
        "key": "k\u{7}",
        "kind": null,
        "until": null,
        "result_bytes": 4,
    });
    assert_eq!(shown, expected);

    assert_eq!(shell.ok(&["show", "2"]), "2 dead: no\\nluck\n");
    let expected = json!({ "id": 2, "state": "dead", "error": "no\nluck" });
    assert_eq!(shell.json(&["show", "2"]), [expected]);
    for id in ["3", "4", "18446744073709551615"] {
        assert_eq!(shell.run(3, &["show", id]), "");
        assert_eq!(shell.run(3, &["show", id, "--json"]), "");
    }
    shell.run(2, &["show"]);
    shell.run(2, &["show", "first"]);
}

#[test]
fn the_result_of_a_done_job_is_written_byte_by_byte() {
    let shell = Shell::new();
    shell.ok(&["push", "with", "empty", "without", "dead", "open"]);
    let queue = keeping(&shell);
    let [with, empty, without, dead] = [(); 4].map(|()| queue.take().unwrap());
    with.set_result(RESULT).unwrap();
    empty.set_result([]).unwrap();
    for done in [with, empty, without] {
        done.ack().unwrap();
    }
    dead.bury("no").unwrap();
    let output = shell.command(&["show", "1", "--result"]).output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    assert_eq!(output.stdout, RESULT);
    assert_eq!(shell.ok(&["show", "2", "--result"]), "");
    assert!(shell.ok(&["show", "3"]).contains(", no result, "));
    for id in ["3", "4", "5", "6"] {
        assert_eq!(shell.run(3, &["show", id, "--result"]), "", "{id}");
    }
    for json in [
        &["show", "1", "--result", "--json"],
        &["--json", "show", "1", "--result"],
    ] {
        assert_eq!(shell.run(2, json), "");
    }
}
