import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

interface Entry {
  readonly id: number
  readonly user: unknown
}

/** Keeps a copy of the users of a database by its feed, from whichever services serve it, until it is stopped. */
export type Follower = ReturnType<typeof follow>

interface FollowOptions {
  /** The services that are up, of which one is asked. */
  readonly urls: () => readonly string[]
  readonly random: () => number
  readonly headers?: Readonly<Record<string, string>>
  /** The largest number of entries in a page. */
  readonly maxLimit?: number
}

/** Where a follower is, and what it has. */
interface Position {
  readonly copy: Map<number, unknown>
  /** The cursor after what it has. */
  after: string | undefined
  restarts: number
}

/** By pages, which are waited for if `wait` is not zero. */
export function followPages(options: FollowOptions, wait: number): Follower {
  const { urls, random, headers = {}, maxLimit = 30 } = options
  return follow(async position => {
    const limit = 1 + Math.floor(random() * maxLimit)
    const { after } = position
    const query = `limit=${limit}&wait=${wait}${after === undefined ? '' : `&after=${after}`}`
    const url = `${pick(urls(), random)}/users/changes?${query}`
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(20_000) })
    if (response.status === 410) beginAgain(position)
    if (response.status !== 200) throw new Error(`${response.status}`)
    const page = (await response.json()) as { data: Entry[]; next: string; has_more: boolean }
    for (const entry of page.data) apply(position.copy, entry)
    position.after = page.next
    if (wait === 0 && !page.has_more) await sleep(5)
  })
}

/** By a stream of events, opened again whenever it ends. */
export function followStream({ urls, random, headers: more }: FollowOptions): Follower {
  let end = () => {}

  function openOnce(position: Position): Promise<void> {
    return new Promise(resolve => {
      const { after } = position
      const headers = {
        ...more,
        Accept: 'text/event-stream',
        ...(after !== undefined && { 'Last-Event-ID': after }),
      }
      const url = `${pick(urls(), random)}/users/changes`
      const request = get(url, { headers, agent: false }, response => {
        if (response.statusCode === 410) beginAgain(position)
        let text = ''
        response.setEncoding('utf8').on('data', part => {
          text += part
          const events = text.split('\n\n')
          text = events.pop() as string
          if (response.statusCode === 200) for (const event of events) takeEvent(position, event)
        })
        response.on('error', () => {}).on('close', resolve)
      })
      request.on('error', () => resolve())
      end = () => request.destroy()
    })
  }

  return follow(
    async position => {
      await openOnce(position)
      await sleep(10)
    },
    () => end(),
  )
}

/** Takes one step after the other until it is stopped; `end` breaks the present one off. */
function follow(step: (position: Position) => Promise<void>, end = () => {}) {
  const position: Position = { copy: new Map(), after: undefined, restarts: 0 }
  let isStopped = false

  async function run(): Promise<void> {
    while (!isStopped) await step(position).catch(() => sleep(20))
  }

  const running = run()
  return {
    copy: position.copy as ReadonlyMap<number, unknown>,
    /** How often it had to begin again. */
    restarts: () => position.restarts,
    stop: async (): Promise<void> => {
      isStopped = true
      end()
      await running
    },
  }
}

function pick(urls: readonly string[], random: () => number): string | undefined {
  return urls[Math.floor(random() * urls.length)]
}

function beginAgain(position: Position): void {
  position.after = undefined
  position.copy.clear()
  position.restarts++
}

function takeEvent(position: Position, text: string): void {
  const id = /^id: (.*)$/m.exec(text)?.[1]
  if (id === undefined) return
  const data = JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? '')
  apply(position.copy, { id: data.id, user: /^event: user$/m.test(text) ? data : null })
  position.after = id
}

/** Takes one entry of the feed over into a copy. */
export function apply(copy: Map<number, unknown>, { id, user }: Entry): void {
  if (user === null) copy.delete(id)
  else copy.set(id, user)
}
