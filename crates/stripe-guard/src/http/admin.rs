//! The admin listener: health and metrics. Host names are checked, because a web page that a
//! person opens can reach a loopback port.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;

use super::health::Health;

/// What the admin listener works with.
#[derive(Clone)]
pub struct Admin {
    /// Readiness.
    pub health: Health,
    /// Renders the metrics.
    pub metrics: &'static PrometheusHandle,
    /// Host names that are answered beside loopback's and the address itself.
    pub hosts: Arc<[String]>,
    /// The address in fact.
    pub address: SocketAddr,
}

/// The admin listener's routes.
pub fn router(admin: Admin) -> Router {
    Router::new()
        .route("/healthz", get(|| async { StatusCode::OK }))
        .route("/readyz", get(|State(admin): State<Admin>| async move { admin.health.ready().await }))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn_with_state(admin.clone(), known_host))
        .with_state(admin)
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    (kind, admin.metrics.render()).into_response()
}

async fn known_host(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    let asked = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let asked = asked.or_else(|| request.uri().authority().map(axum::http::uri::Authority::as_str));
    if asked.is_some_and(|host| admin.answers_to(host)) {
        next.run(request).await
    } else {
        (StatusCode::FORBIDDEN, "this host name is not in admin.hosts\n").into_response()
    }
}

impl Admin {
    fn answers_to(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        matches!(name, "localhost" | "127.0.0.1" | "::1")
            || name == self.address.ip().to_string()
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}
