//! The HTTP client, and what its errors mean.

use std::{io, sync::Arc, time::Duration};

use rustls::crypto::ring;
use ureq::{
    Agent, AsSendBody, Body, RequestBuilder, Timeout,
    config::RedirectAuthHeaders,
    http::{HeaderValue, Request, Response, Uri, header::AUTHORIZATION, request::Builder},
    tls::TlsConfig,
    typestate::{WithBody, WithoutBody},
    unversioned::transport::DefaultConnector,
};
use verimount_sync::Mutex;

use crate::{
    Error,
    budget::{Budget, PerServer},
    client::Failure,
    insecure,
    limits::{CONNECT, Limits, MAX_HEAD},
    proxies::Proxies,
    renewed::{Again, Renewed},
    resolver::SystemResolver,
    roots::roots,
    session::Authorities,
};

/// The HTTP client of a session. It follows no redirects: what sends a request knows which headers may go where,
/// and each host may have another proxy.
#[derive(Clone)]
pub(crate) struct Http {
    agent: Arc<Renewed<Trusting>>,
    proxies: Arc<Proxies>,
    /// Each agent that was ever in use, as requests of older ones may be under way.
    all: Arc<Mutex<Vec<Agent>>>,
}

/// A client, and whose certificates it accepts.
struct Trusting {
    authorities: Option<Authorities>,
    agent: Agent,
}

impl PartialEq for Trusting {
    fn eq(&self, other: &Self) -> bool {
        self.authorities == other.authorities
    }
}

/// What of a request is limited in time besides what is for all of them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Within {
    /// Nothing.
    Usual,
    /// That the answer begins.
    Answer(Duration),
    /// That its body arrives.
    Body(Duration),
}

impl Http {
    pub(crate) fn new(
        authorities: Option<Authorities>,
        again: Again,
        limits: Limits,
        proxies: Proxies,
    ) -> Self {
        let all = Arc::default();
        let trusting = {
            let all: Arc<Mutex<Vec<Agent>>> = Arc::clone(&all);
            move |authorities: Option<Authorities>| {
                let agent = agent(authorities.clone(), &limits);
                all.lock().push(agent.clone());
                Trusting { authorities, agent }
            }
        };
        let first = trusting(authorities);
        let again = move || Some(trusting(Some(again.parsed()?)));
        Self {
            agent: Renewed::new(first, again).into(),
            proxies: proxies.into(),
            all,
        }
    }

    fn agent(&self) -> Agent {
        self.agent.now().agent.clone()
    }

    /// Sends what `send` sends by this client, and once more if the certificate of a server was not accepted and there are
    /// other authorities by now.
    pub(crate) fn trusting_anew<T>(
        &self,
        send: impl Fn() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let used = self.agent.now();
        match send() {
            Err(failure) if matches!(failure.error, Error::Tls(_)) => {
                self.agent.instead_of(&used).ok_or(failure)?;
                send()
            }
            sent => sent,
        }
    }

    /// A request for what is at a URL, all of which may take this long.
    ///
    /// # Errors
    /// [`Error::Proxy`].
    pub(crate) fn get(
        &self,
        url: &Uri,
        within: Duration,
    ) -> Result<RequestBuilder<WithoutBody>, Error> {
        self.limited(self.agent().get(url), url, within)
    }

    /// A request with a body, as [`Self::get`].
    ///
    /// # Errors
    /// [`Error::Proxy`].
    pub(crate) fn post(
        &self,
        url: &Uri,
        within: Duration,
    ) -> Result<RequestBuilder<WithBody>, Error> {
        self.limited(self.agent().post(url), url, within)
    }

    fn limited<B>(
        &self,
        request: RequestBuilder<B>,
        url: &Uri,
        within: Duration,
    ) -> Result<RequestBuilder<B>, Error> {
        let config = request.config().proxy(self.proxies.of_url(url)?);
        Ok(config.timeout_global(Some(within)).build())
    }

    /// Sends a request with this body, and with this authorization if there is one.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) fn send(
        &self,
        request: Builder,
        authorization: Option<&HeaderValue>,
        body: impl AsSendBody,
        within: Within,
    ) -> Result<Response<Body>, Failure> {
        let request = match authorization {
            Some(value) => request.header(AUTHORIZATION, value),
            None => request,
        };
        let request = request.body(body);
        let request = request.map_err(|error| Error::Protocol(error.to_string()))?;
        Ok(self.run(request, within)?)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Error::Proxy`], and why there is no answer.
    pub(crate) fn run(
        &self,
        request: Request<impl AsSendBody>,
        within: Within,
    ) -> Result<Response<Body>, Error> {
        let proxy = self.proxies.of_url(request.uri())?;
        let agent = self.agent();
        let config = agent.configure_request(request).proxy(proxy);
        let config = match within {
            Within::Usual => config,
            Within::Answer(time) => config.timeout_recv_response(Some(time)),
            Within::Body(time) => config.timeout_recv_body(Some(time)),
        };
        agent.run(config.build()).map_err(of_client)
    }

    /// Sends a request without any proxy.
    ///
    /// # Errors
    /// Why there is no answer.
    #[cfg(feature = "clouds")]
    pub(crate) fn run_directly(
        &self,
        request: Request<impl AsSendBody>,
        within: Duration,
    ) -> Result<Response<Body>, Error> {
        let agent = self.agent();
        let config = agent.configure_request(request);
        let config = config.timeout_global(Some(within));
        agent.run(config.build()).map_err(of_client)
    }

    /// Ends all requests, and refuses later ones.
    pub(crate) fn shutdown(&self) {
        for agent in self.all.lock().iter() {
            agent.clone().shutdown();
        }
    }

    /// Replaces the proxies.
    #[cfg(test)]
    pub(crate) fn with_proxies(self, proxies: Proxies) -> Self {
        let proxies = proxies.into();
        Self { proxies, ..self }
    }
}

fn agent(authorities: Option<Authorities>, limits: &Limits) -> Agent {
    let tls = TlsConfig::builder()
        .root_certs(roots(authorities))
        .unversioned_rustls_crypto_provider(Arc::new(ring::default_provider()))
        .build();
    let PerServer { awaited, early } = Budget::default().of_server;
    let idle = awaited + early;
    // No limit for a whole answer: a slow one is better than none. The caller has deadlines.
    let config = Agent::config_builder()
        .tls_config(tls)
        // Each request has its own.
        .proxy(None)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .redirect_auth_headers(RedirectAuthHeaders::Never)
        .max_response_header_size(MAX_HEAD)
        .max_idle_connections(idle)
        .max_idle_connections_per_host(idle)
        .timeout_resolve(Some(CONNECT))
        .timeout_connect(Some(CONNECT))
        .timeout_per_read(Some(limits.silence))
        .timeout_per_write(Some(limits.silence))
        .timeout_recv_response(Some(limits.read))
        .user_agent(concat!("verimount/", env!("CARGO_PKG_VERSION")))
        .accept("*/*")
        .accept_encoding("identity")
        .build();
    Agent::with_parts(
        config,
        DefaultConnector::default(),
        SystemResolver::default(),
    )
}

/// The texts of the client's errors may contain the URL with its query, so only some are used.
pub(crate) fn of_client(error: ureq::Error) -> Error {
    match error {
        ureq::Error::TooManyRedirects | ureq::Error::RedirectFailed | ureq::Error::BadUri(_) => {
            Error::Redirects
        }
        ureq::Error::LargeResponseHeader(..) => Error::LargeHead,
        ureq::Error::HostNotFound => Error::UnknownHost,
        ureq::Error::ConnectionFailed => Error::Unreachable("no address answers".to_owned()),
        ureq::Error::ConnectProxyFailed(_) | ureq::Error::InvalidProxyUrl => {
            Error::Unreachable("the proxy does not connect".to_owned())
        }
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            Error::Unreachable("no answer in time".to_owned())
        }
        ureq::Error::Timeout(_) => Error::Broken("no answer in time".to_owned()),
        ureq::Error::Rustls(error) => Error::Tls(insecure::reason(&error)),
        ureq::Error::Tls(text) => Error::Tls(text.to_owned()),
        ureq::Error::Protocol(error) => Error::Protocol(error.to_string()),
        ureq::Error::Http(error) => Error::Protocol(error.to_string()),
        ureq::Error::Io(error) => of_io(&error),
        _ => Error::Protocol("the client failed".to_owned()),
    }
}

fn of_io(error: &io::Error) -> Error {
    if let Some(tls) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
    {
        return Error::Tls(insecure::reason(tls));
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::AddrNotAvailable => Error::Unreachable(error.to_string()),
        _ => Error::Broken(error.to_string()),
    }
}
