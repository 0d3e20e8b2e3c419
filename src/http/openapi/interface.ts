const NO_KEYS = 'The service asks for none. Anyone who can reach it can do everything.'

const KEYS = `Requests need an API key: \`Authorization: Bearer KEY\`. Without a valid one the response is 401, whatever the
path; without the scope that the operation needs, 403. This document, the pages and the health checks are open to all.`

/** The title and the introduction of the OpenAPI document. */
export function describeService({ needsKeys }: { readonly needsKeys: boolean }) {
  return {
    title: 'User Records Service',
    description: `Create, list, read, change and delete users, and verify their passwords, as JSON over HTTP.

**Credentials.** ${needsKeys ? KEYS : NO_KEYS}

**Formats.** Bodies are \`application/json\` in UTF-8. If \`Accept\` allows neither that nor \`application/problem+json\`, the
response is 406. HEAD works wherever GET does and returns the same response without its body, and OPTIONS works on every path
and lists its methods in \`Allow\`; neither is shown below. Other methods get 405 with \`Allow\`, unknown paths 404.

**Errors** have the form \`Error\`. Clients whose \`Accept\` gives \`application/problem+json\` a higher quality than
\`application/json\` get \`Problem\` of RFC 9457 instead. Errors are never cached.

**Versions.** Users and lists have an \`ETag\`. With \`If-None-Match\`, the response is 304 if nothing has changed. With
\`If-Match\`, a user is changed only if it still has the named version; otherwise the response is 412.

**Retries.** A create with an \`Idempotency-Key\` can be repeated for 24 hours. \`Retry-After\` is the number of seconds to wait
before a retry.

**Limits.** The operator may have set limits: a blocked or banned client gets 403, a client that sends too many requests 429.
\`RateLimit\` and \`RateLimit-Policy\` say what is allowed and what is left. A rule may respond in another way, such as with a
redirect.

**Pages of other origins** may call the service if the operator allows their origin. Responses then have CORS headers.`,
  }
}
