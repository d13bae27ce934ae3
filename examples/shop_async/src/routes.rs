//! The shop's HTTP interface.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};

use crate::shop::{Failure, Shop};

pub(crate) fn router(shop: Shop) -> Router {
    Router::new()
        .route("/users/{name}", post(sign_up))
        .route("/users/{user}/orders", post(order))
        .route("/orders/{order}", get(state))
        .route("/orders/{order}/pay", post(pay))
        .with_state(shop)
}

type Answer = (StatusCode, String);

async fn sign_up(State(shop): State<Shop>, Path(name): Path<String>) -> Answer {
    answer(shop.sign_up(&name).await, |user| {
        (StatusCode::CREATED, user.to_string())
    })
}

async fn order(State(shop): State<Shop>, Path(user): Path<i64>) -> Answer {
    answer(shop.order(user).await, |order| {
        (StatusCode::CREATED, order.to_string())
    })
}

async fn pay(State(shop): State<Shop>, Path(order): Path<i64>) -> Answer {
    answer(shop.pay(order).await, |in_time| {
        if in_time {
            (StatusCode::OK, "paid".to_owned())
        } else {
            (StatusCode::CONFLICT, "too late".to_owned())
        }
    })
}

async fn state(State(shop): State<Shop>, Path(order): Path<i64>) -> Answer {
    answer(shop.state(order).await, |state| match state {
        Some(state) => (StatusCode::OK, state),
        None => (StatusCode::NOT_FOUND, "unknown order".to_owned()),
    })
}

fn answer<T>(result: Result<T, Failure>, done: impl FnOnce(T) -> Answer) -> Answer {
    match result {
        Ok(value) => done(value),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
