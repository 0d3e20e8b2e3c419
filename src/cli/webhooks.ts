import { randomBytes } from 'node:crypto'
import { API_KEY_NAME_RULE, isApiKeyName } from '../access/api-key.ts'
import { OperatorError } from '../errors.ts'
import type { Storage } from '../storage/storage.ts'
import { encodeBeginning, encodeChangeCursor } from '../users/cursor.ts'
import { describeWebhooks, type ShownWebhook } from '../webhooks/describe-webhooks.ts'
import {
  MAX_WEBHOOKS,
  ROTATION_MS,
  type StoredWebhook,
  shownUrl,
  type WebhookStore,
} from '../webhooks/webhook.ts'
import { secretText, signedHeaders, testMessage } from '../webhooks/webhook-message.ts'
import { createSender, isRefusedAddress } from '../webhooks/webhook-sender.ts'
import { withStorage } from './terminal/read-config.ts'
import {
  EXIT,
  type JsonFlags,
  notify,
  type Outcome,
  print,
  printJson,
  type Terminal,
  textInWords,
  UsageError,
  wrongValue,
} from './terminal/terminal.ts'

export interface AddFlags extends JsonFlags {
  readonly name: string
  readonly url: string
  readonly from?: string
}

const SECRET_BYTES = 32
const TEST_TIMEOUT_MS = 10_000

/** Adds a webhook and prints its secret, alone on standard output. If it cannot be printed, the webhook is removed at once. */
export async function addWebhook(terminal: Terminal, flags: AddFlags): Promise<number> {
  const { name, from, json } = flags
  if (!isApiKeyName(name)) {
    throw new UsageError(`--name was ${textInWords(name)}; it may be ${API_KEY_NAME_RULE}`)
  }
  if (from !== undefined && from !== 'start') throw wrongValue('--from', from, 'start')
  const url = parseUrl(flags.url)
  const secret = randomBytes(SECRET_BYTES)
  await withStorage(terminal, 'create', async ({ webhooks, changes }) => {
    const cursor =
      from === 'start' ? undefined : encodeChangeCursor((await changes.read('now', 1)).next)
    const begunAt = Date.now()
    const webhook = { ...NEW, name, url: url.href, secret, cursor, begunAt, revision: begunAt }
    const outcome = await webhooks.create(webhook)
    if (outcome === 'full') {
      throw new OperatorError([`there are ${MAX_WEBHOOKS} webhooks already: remove one first`])
    }
    if (outcome === 'taken') {
      throw new OperatorError([
        `there is a webhook ${name} already: choose another name, or remove it first`,
      ])
    }
    try {
      await printSecret(terminal, { name, url: shownUrl(url.href) }, secret, json)
    } catch (error) {
      await webhooks.remove(name)
      throw error
    }
  })
  if (url.protocol === 'http:') {
    notify(terminal, 'warning: over http: the changes can be read and altered on their way')
  }
  if (!json) notify(terminal, 'The receiver verifies with this secret, which is never shown again.')
  return EXIT.done
}

const NEW = {
  ...{ previousSecret: undefined, rotatedUntil: undefined, resetAt: undefined },
  ...{ disabled: undefined, failures: 0, failingSince: undefined, lastError: undefined },
  retryAt: undefined,
} satisfies Partial<StoredWebhook>

/** All webhooks, by name. */
export async function listWebhooks(terminal: Terminal): Promise<Outcome> {
  const shown = await withStorage(terminal, 'refuse', async ({ webhooks, changes }) =>
    describeWebhooks(await webhooks.list(), changes, Date.now()),
  )
  return { lines: shown.length === 0 ? ['no webhooks'] : shown.map(lineOf), json: shown }
}

/** Sends one request of the type `test` from here. Exit code 1 unless it was answered with 2xx. */
export async function testWebhook(terminal: Terminal, name: string): Promise<Outcome> {
  const webhook = await withStorage(terminal, 'refuse', ({ webhooks }) => find(webhooks, name))
  if (webhook === undefined) throw unknownName(name)
  const sender = createSender(webhook.url)
  const message = testMessage(webhook, Date.now())
  const headers = signedHeaders(webhook, message, Date.now())
  const { body } = message
  const answer = await sender
    .send({ body, headers, timeoutMs: TEST_TIMEOUT_MS })
    .catch((error: Error) => error.message)
    .finally(sender.close)
  const failed = typeof answer === 'string'
  const isSuccess = !failed && answer.status >= 200 && answer.status < 300
  const json = failed
    ? { status: null, error: answer }
    : { status: answer.status, retry_after: answer.retryAfter ?? null }
  return {
    lines: [failed ? `no answer: ${answer}` : `answered ${answer.status}`],
    json: { webhook: name, id: message.id, ...json },
    exitCode: isSuccess ? EXIT.done : EXIT.failed,
  }
}

/** Prints a new secret, alone on standard output. */
export async function rotateWebhook(
  terminal: Terminal,
  name: string,
  { json }: JsonFlags,
): Promise<number> {
  const secret = randomBytes(SECRET_BYTES)
  const rotatedUntil = Date.now() + ROTATION_MS
  await change(terminal, name, async ({ webhooks }) => {
    if ((await find(webhooks, name)) === undefined) return false
    // First: one that signs and that nobody has would end the previous one at the next rotation.
    await printSecret(terminal, { name }, secret, json)
    return webhooks.rotate(name, secret, rotatedUntil).catch(error => {
      notify(terminal, 'The secret that was printed may not sign: rotate again.')
      throw error
    })
  })
  if (!json) notify(terminal, 'The previous secret signs too for 24 hours.')
  return EXIT.done
}

/** Lets a webhook begin at the beginning of the feed. */
export async function replayWebhook(terminal: Terminal, name: string): Promise<Outcome> {
  await change(terminal, name, async ({ webhooks }) => {
    const cursor = (await find(webhooks, name))?.cursor
    const from = cursor === undefined ? undefined : encodeBeginning(cursor)
    return webhooks.replay(name, { begunAt: Date.now(), cursor: from })
  })
  return { lines: [`begins again: ${textInWords(name)}`], json: { replayed: name } }
}

/** Enables a webhook, and lets it forget that it failed. */
export async function resumeWebhook(terminal: Terminal, name: string): Promise<Outcome> {
  await change(terminal, name, ({ webhooks }) => webhooks.resume(name))
  return { lines: [`resumed: ${textInWords(name)}`], json: { resumed: name } }
}

/** Removes a webhook. */
export async function removeWebhook(terminal: Terminal, name: string): Promise<Outcome> {
  await change(terminal, name, ({ webhooks }) => webhooks.remove(name))
  return { lines: [`removed: ${textInWords(name)}`], json: { removed: name } }
}

async function find(webhooks: WebhookStore, name: string): Promise<StoredWebhook | undefined> {
  return (await webhooks.list()).find(found => found.name === name)
}

/** Throws `OperatorError` if `work` finds no webhook of the name. */
async function change(
  terminal: Terminal,
  name: string,
  work: (storage: Storage) => Promise<boolean>,
): Promise<void> {
  if (!(await withStorage(terminal, 'refuse', work))) throw unknownName(name)
}

function unknownName(name: string): OperatorError {
  return new OperatorError([`there is no webhook ${textInWords(name)}; see webhooks list`])
}

/** Throws `UsageError`, which never repeats credentials, for what no webhook can have as its address. */
function parseUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new UsageError('--url must be an address such as https://example.com/users')
  }
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isRefusedAddress(host)) {
    throw new UsageError(
      `--url must not lead to ${host}, which is link-local, multicast or unspecified`,
    )
  }
  try {
    decodeURIComponent(`${url.username}:${url.password}`)
  } catch {
    throw new UsageError('--url must have % in its credentials as %25')
  }
  url.hash = ''
  return url
}

async function printSecret(
  terminal: Terminal,
  fields: object,
  secret: Buffer,
  json: boolean | undefined,
): Promise<void> {
  const text = secretText(secret)
  await (json ? printJson(terminal, { ...fields, secret: text }) : print(terminal, text))
}

function lineOf(shown: ShownWebhook): string {
  const { name, url, state, behind_seconds: behind, failing_since: since, last_error } = shown
  const failing = since === null ? '' : `failing since ${since}: `
  const failure = last_error === null ? '' : `  ${failing}${last_error}`
  return `${textInWords(name)}  ${url}  ${state}  ${behind} s behind${failure}`
}
