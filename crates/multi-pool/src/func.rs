//! `MultiFuncPool`: one function, many arguments.

use pool_core::Func;

use crate::multi::{MultiWorkerPool, WeakMultiWorkerPool};

/// Several pools of one function behind one interface: arguments are handed over with
/// [`submit`](MultiWorkerPool::submit) and [`spawn`](MultiWorkerPool::spawn).
///
/// ```
/// use multi_pool::MultiFuncPool;
/// use pool_core::FuncPool;
///
/// let each = FuncPool::builder(|n: u64| n * n).capacity(1).queue_depth(100);
/// let squares = MultiFuncPool::builder(each).pools(2).build()?;
/// let handles: Vec<_> = (1..=10).map(|n| squares.spawn(n)).collect::<Result<_, _>>()?;
/// let mut sum = 0;
/// for handle in handles {
///     sum += handle.join()?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "NewMultiPoolWithFunc")]
#[doc(alias = "NewMultiPoolWithFuncGeneric")]
#[doc(alias = "MultiPoolWithFunc")]
#[doc(alias = "MultiPoolWithFuncGeneric")]
pub type MultiFuncPool<T, R = ()> = MultiWorkerPool<Func<T, R>>;

/// A [`MultiFuncPool`]'s handle that keeps nothing open.
pub type WeakMultiFuncPool<T, R = ()> = WeakMultiWorkerPool<Func<T, R>>;

impl<T: Send + 'static, R: Send + 'static> MultiFuncPool<T, R> {
    /// Releases, and takes out the arguments that have not been called with, pool after pool. Their
    /// handles end with `Released`.
    pub fn release_now(&self) -> Vec<T> {
        let mut items = Vec::new();
        self.shared().release_now(|item| items.push(item));
        items
    }
}
