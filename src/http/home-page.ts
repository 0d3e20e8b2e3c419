import { createHash } from 'node:crypto'
import { HTML_TYPE } from './negotiation.ts'
import type { Reply } from './reply.ts'

/** Something else that this service serves. */
export interface Place {
  readonly path: string
  readonly what: string
}

export interface HomePageOptions {
  readonly version: string
  readonly places: readonly Place[]
}

/** What of the page differs from one request to the next. */
export interface Moment {
  readonly isReady: boolean
  /** Under which the examples call the service, such as `http://127.0.0.1:3000`. */
  readonly origin: string
}

/** Of the README, with `{origin}` in place of its address. */
export const EXAMPLES: readonly (readonly [purpose: string, command: string])[] = [
  [
    'Create a user',
    `curl {origin}/users -H 'Content-Type: application/json' \\
  -d '{"user": {"name": "Ann", "email": "ann@example.com", "password": "correct horse"}}'`,
  ],
  ['List the users', 'curl {origin}/users'],
  ['Read one', 'curl {origin}/users/1'],
  [
    'Change it',
    `curl -X PUT {origin}/users/1 -H 'Content-Type: application/json' \\
  -d '{"user": {"name": "Bea"}}'`,
  ],
  [
    'See what is wrong with a change',
    `curl -X PUT {origin}/users/1 -H 'Content-Type: application/json' \\
  -d '{"user": {"name": "", "email": "nobody", "password": "short"}}'`,
  ],
  ['Delete it', 'curl -i -X DELETE {origin}/users/1'],
  [
    'Create one that a repeat does not create twice',
    `curl {origin}/users -H 'Content-Type: application/json' \\
  -H 'Idempotency-Key: 0b5d6a1e-6f2c-4c1e-9d3b-8a7f2e4c5d60' \\
  -d '{"user": {"name": "Cid", "email": "cid@example.com"}}'`,
  ],
  [
    'The newest user, and how many there are',
    "curl -i '{origin}/users?sort=-created_at&per_page=1&count=true'",
  ],
]

const STYLE = `
:root { color-scheme: light dark; --ink: #1f2a37; --paper: #fff; --soft: #f1f4f8; --line: #d5dce5; --link: #1a56b0;
  --good: #17693a; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --paper: #14191f; --soft: #1e252d; --line: #38424d;
  --link: #8ab8ff; --good: #6fd198; --bad: #ff9b92 } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 50rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.6 system-ui, sans-serif }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2 }
h2 { margin: 2.5rem 0 .5rem; font-size: 1.25rem }
h3 { margin: 1.25rem 0 .25rem; font-size: 1rem; font-weight: 600 }
a { color: var(--link) }
.state::before { content: "\\25cf\\a0" }
.ready { color: var(--good) }
.not-ready { color: var(--bad) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem; margin: 1.5rem 0 }
dd { margin: 0 }
code, dt { font-family: ui-monospace, monospace; font-size: .9rem }
pre { margin: 0; padding: .75rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; background: var(--soft); border: 1px solid var(--line);
  border-radius: .5rem }
`

/** The page of `GET /`. It has no scripts, and its one style is allowed by its hash. */
export function createHomePage({ version, places }: HomePageOptions): (moment: Moment) => Reply {
  const styleHash = createHash('sha256').update(STYLE).digest('base64')
  const headers = {
    'Content-Security-Policy': [
      "default-src 'none'",
      `style-src 'sha256-${styleHash}'`,
      // Of an icon that is empty, so that no browser asks for another.
      'img-src data:',
      "base-uri 'none'",
      "form-action 'none'",
      "frame-ancestors 'none'",
    ].join('; '),
  }
  const links = places.map(
    ({ path, what }) => `<dt><a href="${path}">${path}</a></dt><dd>${what}</dd>`,
  )

  return ({ isReady, origin }) => ({
    status: 200,
    headers,
    type: `${HTML_TYPE}; charset=utf-8`,
    body: `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>User Records Service</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<h1>User Records Service</h1>
<p>Create, list, read, update and delete users, as JSON over HTTP.</p>
<p><strong class="state ${isReady ? 'ready">Ready' : 'not-ready">Not ready'}</strong>, version ${escapeHtml(version)}</p>
<dl>
${links.join('\n')}
</dl>
<h2>From a terminal</h2>
${EXAMPLES.map(example => exampleOf(example, origin)).join('\n')}
</body>
</html>
`,
  })
}

function exampleOf([purpose, command]: (typeof EXAMPLES)[number], origin: string): string {
  const text = escapeHtml(command.replaceAll('{origin}', () => origin))
  return `<h3>${purpose}</h3>\n<pre><code>${text}</code></pre>`
}

function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#39;')
}
