//! Adapters for the executor traits of other crates, each behind the feature of its crate's name.

#[cfg(feature = "tower")]
pub use tower::{PoolLayer, PoolService, ResponseFuture, ServiceError};

/// Refuses a future, with an error that says "shutdown", if the pool is full or released: the trait has no other error,
/// and its calls must not block.
#[cfg(feature = "futures-task")]
impl futures_task::Spawn for crate::AsyncPool {
    fn spawn_obj(
        &self,
        future: futures_task::FutureObj<'static, ()>,
    ) -> Result<(), futures_task::SpawnError> {
        self.try_submit(future)
            .map_err(|_| futures_task::SpawnError::shutdown())
    }

    fn status(&self) -> Result<(), futures_task::SpawnError> {
        if self.is_released() {
            return Err(futures_task::SpawnError::shutdown());
        }
        Ok(())
    }
}

/// The trait's call can neither wait nor fail. In a full pool, the future takes its place in the wait queue and starts when
/// its turn comes. A released pool, or one with [too many](crate::Builder::max_waiting) waiting callers, drops it, and hyper
/// resets the stream.
///
/// Connections hold room for as long as they are open. So that the requests of a connection never wait for room that only
/// connections hold, run the connections elsewhere, or in a pool of their own.
#[cfg(feature = "hyper")]
impl<F> hyper::rt::Executor<F> for crate::AsyncPool
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, future: F) {
        self.enqueue(future);
    }
}

#[cfg(feature = "tower")]
mod tower {
    use std::error::Error;
    use std::fmt;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, ready};

    use pool_core::{JoinError, SubmitError};

    use crate::task::Futures;
    use crate::{AsyncPool, JoinHandle, Permit};

    type WaitForRoom = Pin<Box<dyn Future<Output = Result<Permit<Futures>, SubmitError>> + Send>>;

    /// A `tower` layer that runs the requests of a service in a pool, and asks for room before it accepts one.
    ///
    /// `poll_ready` reserves room. In a full pool it waits, or, after [`refuse`](Self::refuse), lets the next call fail
    /// at once, without a look at the request. A response that is dropped cancels its request.
    ///
    /// The callers of the service, such as the connections of a server, run elsewhere or in a pool of their own: if they
    /// held all room, their requests would wait for ever.
    ///
    /// ```
    /// use async_pool::{AsyncPool, PoolLayer};
    /// use tower::{ServiceExt, service_fn};
    /// use tower_layer::Layer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # futures_lite::future::block_on(async {
    /// let pool = AsyncPool::builder().capacity(100).build()?;
    /// let double = service_fn(|n: u32| async move { Ok::<_, std::io::Error>(2 * n) });
    /// let service = PoolLayer::new(pool).refuse().layer(double);
    /// assert_eq!(service.oneshot(21).await?, 42);
    /// # Ok(()) })
    /// # }
    /// ```
    #[derive(Clone, Debug)]
    pub struct PoolLayer {
        pool: AsyncPool,
        refuses: bool,
    }

    impl PoolLayer {
        /// Creates a layer that waits while the pool is full.
        pub fn new(pool: AsyncPool) -> Self {
            let refuses = false;
            Self { pool, refuses }
        }

        /// Refuses requests while the pool is full, with [`ServiceError::Refused`]. As in tower's own load shedding, the
        /// service is always ready, and the call returns the error.
        pub fn refuse(mut self) -> Self {
            self.refuses = true;
            self
        }
    }

    impl<S> tower_layer::Layer<S> for PoolLayer {
        type Service = PoolService<S>;

        fn layer(&self, inner: S) -> PoolService<S> {
            PoolService {
                inner,
                layer: self.clone(),
                room: Room::None,
            }
        }
    }

    /// The service of a [`PoolLayer`]. A clone has no room.
    pub struct PoolService<S> {
        inner: S,
        layer: PoolLayer,
        room: Room,
    }

    enum Room {
        None,
        Waiting(WaitForRoom),
        Reserved(Permit<Futures>),
        Refused(SubmitError),
    }

    impl<S: Clone> Clone for PoolService<S> {
        fn clone(&self) -> Self {
            Self {
                inner: self.inner.clone(),
                layer: self.layer.clone(),
                room: Room::None,
            }
        }
    }

    impl<S: fmt::Debug> fmt::Debug for PoolService<S> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("PoolService")
                .field("inner", &self.inner)
                .field("layer", &self.layer)
                .finish_non_exhaustive()
        }
    }

    impl<S, Q> tower_service::Service<Q> for PoolService<S>
    where
        S: tower_service::Service<Q, Response: Send + 'static, Error: Send + 'static>,
        S::Future: Send + 'static,
    {
        type Response = S::Response;
        type Error = ServiceError<S::Error>;
        type Future = ResponseFuture<S::Response, S::Error>;

        fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
            // First, so that no room is held while the inner service is busy.
            ready!(self.inner.poll_ready(context)).map_err(ServiceError::Service)?;
            if let Room::Refused(_) = self.room {
                self.room = Room::None; // There may be room by now.
            }
            loop {
                self.room = match &mut self.room {
                    Room::None => match self.layer.pool.try_reserve() {
                        Ok(permit) => Room::Reserved(permit),
                        Err(SubmitError::Full(())) if !self.layer.refuses => {
                            Room::Waiting(Box::pin(self.layer.pool.reserve_async()))
                        }
                        Err(refused) => Room::Refused(refused),
                    },
                    Room::Waiting(wait) => match ready!(wait.as_mut().poll(context)) {
                        Ok(permit) => Room::Reserved(permit),
                        Err(refused) => Room::Refused(refused),
                    },
                    Room::Reserved(_) | Room::Refused(_) => return Poll::Ready(Ok(())),
                };
            }
        }

        /// # Panics
        /// If `poll_ready` has not returned `Ready` before.
        fn call(&mut self, request: Q) -> Self::Future {
            match std::mem::replace(&mut self.room, Room::None) {
                Room::Reserved(permit) => {
                    let response = permit.spawn(self.inner.call(request));
                    ResponseFuture(Ok(response.cancel_on_drop()))
                }
                Room::Refused(refused) => ResponseFuture(Err(Some(refused))),
                Room::None | Room::Waiting(_) => panic!("`call` without `poll_ready`"),
            }
        }
    }

    /// The response of a [`PoolService`]. Dropping it cancels the request.
    #[derive(Debug)]
    pub struct ResponseFuture<T, E>(Result<JoinHandle<Result<T, E>>, Option<SubmitError>>);

    impl<T, E> Future for ResponseFuture<T, E> {
        type Output = Result<T, ServiceError<E>>;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
            Poll::Ready(match &mut self.0 {
                Ok(response) => match ready!(Pin::new(response).poll(context)) {
                    Ok(response) => response.map_err(ServiceError::Service),
                    Err(lost) => Err(ServiceError::Lost(lost)),
                },
                Err(refused) => {
                    let refused = refused.take().expect("a future is ready once");
                    Err(ServiceError::Refused(refused))
                }
            })
        }
    }

    /// Error of a [`PoolService`]. `E` is the error of the inner service.
    #[derive(Debug)]
    #[non_exhaustive]
    pub enum ServiceError<E> {
        /// The inner service returned this error.
        Service(E),
        /// The pool did not accept the request: it is [full](SubmitError::Full), or released.
        Refused(SubmitError),
        /// The future of the response has panicked, or was dropped by a `release_now`.
        Lost(JoinError),
    }

    impl<E: fmt::Display> fmt::Display for ServiceError<E> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match self {
                Self::Service(error) => error.fmt(f),
                Self::Refused(refused) => refused.fmt(f),
                Self::Lost(lost) => lost.fmt(f),
            }
        }
    }

    impl<E: Error + 'static> Error for ServiceError<E> {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            match self {
                Self::Service(error) => error.source(),
                Self::Refused(refused) => refused.source(),
                Self::Lost(lost) => lost.source(),
            }
        }
    }
}
