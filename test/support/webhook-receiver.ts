import type { ServerResponse } from 'node:http'
import { Webhook } from 'standardwebhooks'
import { temporaryFolder } from './open-test-app.ts'
import { runCommand } from './run-command.ts'
import { openScriptedServer, type Step } from './scripted-server.ts'

export interface Entry {
  readonly id: number
  readonly user: { readonly id: number; readonly name: string; readonly updated_at: string } | null
  readonly deleted_at?: string
}

export interface Posted {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
  readonly body: { readonly type: string; readonly timestamp: string; readonly data: Entry[] }
}

/** Answers one request; 204 if it does not end the response at once. */
export type Answer = (response: ServerResponse, posted: Posted) => void

/** A server that takes what webhooks post, with all that came so far. It answers 204, or as `answer` says. */
export async function openReceiver(answer: Answer = response => response.writeHead(204).end()) {
  const posted: Posted[] = []
  let answering = answer
  const take: Step = (response, { method, path: url, body: text, ...request }) => {
    const headers = request.headers as Record<string, string>
    const received = { method, url, headers, text, body: JSON.parse(text) }
    posted.push(received)
    answering(response, received)
  }
  const { url } = await openScriptedServer([take])
  return {
    url,
    posted,
    /** From now on it answers so. */
    answerWith: (next: Answer) => {
      answering = next
    },
  }
}

export const status =
  (code: number, headers: Record<string, string> = {}): Answer =>
  response =>
    response.writeHead(code, headers).end()

/** Whether the public library takes a request for one that was signed with a secret. */
export function isSignedWith(secret: string, { headers, text }: Posted): boolean {
  try {
    new Webhook(secret).verify(text, headers)
    return true
  } catch {
    return false
  }
}

export const namesIn = (posted: readonly Posted[]) =>
  posted.flatMap(({ body }) => body.data.map(({ user }) => user?.name))

/** Runs a command of webhooks on a database. */
export function webhooks(databaseUrl: string, ...args: string[]) {
  const options = { cwd: temporaryFolder(), env: { DATABASE_URL: databaseUrl } }
  return runCommand({ ...options, args: ['webhooks', ...args] })
}

/** Adds a webhook, and gives its secret. */
export async function addWebhook(
  databaseUrl: string,
  name: string,
  url: string,
  ...args: string[]
): Promise<string> {
  const { code, stdout, stderr } = await webhooks(
    databaseUrl,
    ...['add', '--name', name, '--url', url, ...args],
  )
  if (code !== 0) throw new Error(stderr)
  return stdout.trimEnd()
}

/** What `webhooks list --json` prints. */
export async function listWebhooks(databaseUrl: string) {
  const { stdout } = await webhooks(databaseUrl, 'list', '--json')
  return JSON.parse(stdout)
}
