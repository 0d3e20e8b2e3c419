import { get } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

interface Entry {
  readonly id: number
  readonly user: unknown
}

/** Keeps a copy of the users of a database by its feed, from whichever services serve it, until it is stopped. */
export interface Follower {
  readonly copy: ReadonlyMap<number, unknown>
  /** How often it had to begin again. */
  restarts(): number
  stop(): Promise<void>
}

interface FollowOptions {
  /** The services that are up, of which one is asked. */
  readonly urls: () => readonly string[]
  readonly random: () => number
}

/** By pages, which are waited for if `wait` is not zero. */
export function followPages({ urls, random }: FollowOptions, wait: number): Follower {
  const copy = new Map<number, unknown>()
  let next: string | undefined
  let restarts = 0
  let isStopped = false

  async function step(): Promise<void> {
    const all = urls()
    const limit = 1 + Math.floor(random() * 30)
    const query = `limit=${limit}&wait=${wait}${next === undefined ? '' : `&after=${next}`}`
    const url = `${all[Math.floor(random() * all.length)]}/users/changes?${query}`
    const response = await fetch(url, { signal: AbortSignal.timeout(20_000) })
    if (response.status === 410) {
      next = undefined
      copy.clear()
      restarts++
    }
    if (response.status !== 200) throw new Error(`${response.status}`)
    const page = (await response.json()) as { data: Entry[]; next: string; has_more: boolean }
    for (const entry of page.data) apply(copy, entry)
    next = page.next
    if (wait === 0 && !page.has_more) await sleep(5)
  }

  async function run(): Promise<void> {
    while (!isStopped) await step().catch(() => sleep(20))
  }

  const running = run()
  return {
    copy,
    restarts: () => restarts,
    stop: async () => {
      isStopped = true
      await running
    },
  }
}

/** By a stream of events, opened again whenever it ends. */
export function followStream({ urls, random }: FollowOptions): Follower {
  const copy = new Map<number, unknown>()
  let lastId: string | undefined
  let restarts = 0
  let isStopped = false
  let end = () => {}

  function takeEvent(text: string): void {
    const id = /^id: (.*)$/m.exec(text)?.[1]
    if (id === undefined) return
    const data = JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? '')
    apply(copy, { id: data.id, user: /^event: user$/m.test(text) ? data : null })
    lastId = id
  }

  function openOnce(): Promise<void> {
    return new Promise(resolve => {
      const all = urls()
      const headers = {
        Accept: 'text/event-stream',
        ...(lastId !== undefined && { 'Last-Event-ID': lastId }),
      }
      const url = `${all[Math.floor(random() * all.length)]}/users/changes`
      const request = get(url, { headers, agent: false }, response => {
        if (response.statusCode === 410) {
          lastId = undefined
          copy.clear()
          restarts++
        }
        let text = ''
        response.setEncoding('utf8').on('data', part => {
          text += part
          const events = text.split('\n\n')
          text = events.pop() as string
          if (response.statusCode === 200) for (const event of events) takeEvent(event)
        })
        response.on('error', () => {}).on('close', resolve)
      })
      request.on('error', () => resolve())
      end = () => request.destroy()
    })
  }

  async function run(): Promise<void> {
    while (!isStopped) {
      await openOnce()
      await sleep(10)
    }
  }

  const running = run()
  return {
    copy,
    restarts: () => restarts,
    stop: async () => {
      isStopped = true
      end()
      await running
    },
  }
}

function apply(copy: Map<number, unknown>, { id, user }: Entry): void {
  if (user === null) copy.delete(id)
  else copy.set(id, user)
}
