/** What the document of the interface says before it comes to the paths. */
export const INTERFACE = {
  title: 'User Records Service',
  description: `Create, list, read, change and delete users, as JSON over HTTP.

**Credentials.** The service asks for none. Whoever reaches it may do everything.

**Formats.** Bodies are \`application/json\` in UTF-8. Where \`Accept\` allows neither that nor \`application/problem+json\`,
the answer is 406. HEAD answers wherever GET does, OPTIONS on every path. Other methods of a path are 405 with \`Allow\`, other
paths 404.

**Errors** are all of the form \`Error\`, or for clients whose \`Accept\` gives \`application/problem+json\` the higher quality
\`Problem\` of RFC 9457. None is cached.

**Versions.** Users and lists bear an \`ETag\`. With \`If-None-Match\` what has not changed is 304; with \`If-Match\` a change is made
only to the version that is named, else 412.

**Retries.** A create with an \`Idempotency-Key\` can be repeated for 24 hours. Where \`Retry-After\` is there, it has the seconds
to wait.

**Limits.** The operator may have set limits: 403 to who is blocked or banned, 429 to who asks too often. \`RateLimit\` and
\`RateLimit-Policy\` tell what is left and what is allowed. A rule may answer something else instead, such as a redirect.

**Pages of other origins** may call where the operator allows theirs; then answers bear the headers of CORS.`,
}
