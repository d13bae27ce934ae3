//! Handling of Ctrl-C.

/// Calls `stop` on the first SIGINT or SIGTERM. The second one ends the process at once, with the
/// exit status that a shell would report.
///
/// # Errors
/// If the system refuses the handlers or the thread that waits for them.
#[cfg(unix)]
pub(crate) fn watch(stop: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};

    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])?;
    let wait = move || {
        let mut signals = signals.forever();
        if signals.next().is_some() {
            stop();
        }
        if let Some(second) = signals.next() {
            signal_hook::low_level::exit(128 + second);
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(wait)?;
    Ok(())
}

/// On other systems, Ctrl-C keeps its default action.
#[cfg(not(unix))]
pub(crate) fn watch(_: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    Ok(())
}
