//! What Ctrl-C does.

/// Calls `stop` at the first SIGINT or SIGTERM; the second ends the process where it stands, with
/// the status a shell would give it.
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

/// Elsewhere Ctrl-C keeps the meaning the system gives it.
#[cfg(not(unix))]
pub(crate) fn watch(_: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    Ok(())
}
