import { hash, randomUUID } from 'node:crypto'
import { ServiceError } from '../errors.ts'
import { nextTurn } from '../platform/timers.ts'
import { MAX_ID } from '../users/stored-user.ts'
import { FIRST_WITH_TOTAL } from '../users/user-repository.ts'
import { COPIED_PARTS, type CopiedPart, USERS } from './copied-parts.ts'
import type { Storage } from './storage.ts'
import { UnusableDatabase } from './unusable-database.ts'

/** A database, and what explains its errors. */
export interface CopyEnd {
  readonly storage: Storage
  explain<T>(work: () => Promise<T>): Promise<T>
}

export interface CopyOptions {
  readonly source: CopyEnd
  readonly target: CopyEnd
  /** Called with how many users were copied or compared, of how many. Each is copied once, and compared on both sides. */
  readonly onProgress?: (done: number, total: number) => void
  /** Its reason is thrown between two pages. */
  readonly signal?: AbortSignal
}

/** What ends within this time after a copy is not compared, in milliseconds. */
const ENDS_SOON_MS = 600_000

/**
 * Copies everything from `source` into `target`, and compares both. The target must be empty, or that of an interrupted copy, which
 * starts over; until all is equal it is an unfinished copy. Throws `UnusableDatabase`, what `explain` makes of it, and the reason
 * of `signal`.
 */
export async function copyUsers({ source, target, onProgress = () => {}, signal }: CopyOptions) {
  const run = randomUUID()
  const [from, to] = [source.storage, target.storage]
  const revision = await source.explain(from.users.revision)
  const totalUsers = (await source.explain(() => from.users.list(FIRST_WITH_TOTAL))).total ?? 0

  let done = 0
  function report(part: CopiedPart<unknown>, users: number): void {
    if (part !== USERS) return
    done += users
    onProgress(done, 3 * totalUsers)
  }

  async function* pagesOf(part: CopiedPart<unknown>, { storage, explain }: CopyEnd) {
    const pages = part.read(storage)[Symbol.asyncIterator]()
    for (;;) {
      // An engine in this process does not give way to signals by itself.
      await nextTurn()
      signal?.throwIfAborted()
      const page = await explain(() => pages.next())
      if (page.done) return
      yield page.value
    }
  }

  async function copyPart(part: CopiedPart<unknown>): Promise<number> {
    let rows = 0
    let waiting: unknown[] = []
    async function keepWaiting(): Promise<void> {
      const items = waiting
      waiting = []
      if (items.length > 0) await target.explain(() => keepNamed(part, to, items))
      rows += items.length
      report(part, items.length)
    }
    for await (const items of pagesOf(part, source)) {
      waiting.push(...items)
      if (waiting.length >= to.imports.batchRows()) await keepWaiting()
    }
    await keepWaiting()
    return rows
  }

  async function sumOf(part: CopiedPart<unknown>, end: CopyEnd, until: number) {
    const sum = createChecksum()
    for await (const items of pagesOf(part, end)) {
      const { staysUntil = () => true } = part
      sum.add(items.filter(item => staysUntil(item, until)))
      report(part, items.length)
    }
    return sum.value()
  }

  async function requireUnchanged(): Promise<void> {
    if ((await source.explain(from.users.revision)) === revision) return
    await refuse(source, 'it was written to meanwhile: stop its services, and run `copy` again')
  }

  await target.explain(() => to.copies.begin(run))
  const tables: { name: string; label: string; rows: number }[] = []
  for (const [name, part] of Object.entries(COPIED_PARTS)) {
    tables.push({ name, label: part.label, rows: await copyPart(part) })
  }
  await requireUnchanged()
  if (tables[0]?.rows !== totalUsers) {
    await refuse(source, `some of its users cannot be copied: ids are from 1 to ${MAX_ID}`)
  }
  const lastId = await source.explain(from.imports.lastId)
  // No release gives out such an id, but a program that writes to a file can.
  if (lastId > MAX_ID) await refuse(source, `it has given out ids greater than ${MAX_ID}`)
  await target.explain(() => to.copies.reserveIds(lastId))

  const until = Date.now() + ENDS_SOON_MS
  const sums: string[] = []
  for (const part of Object.values(COPIED_PARTS)) {
    const [wanted, found] = [await sumOf(part, source, until), await sumOf(part, target, until)]
    await requireUnchanged()
    if (wanted.text !== found.text) await refuse(target, differs(part, wanted, found))
    sums.push(wanted.text)
  }
  if ((await target.explain(to.imports.lastId)) < lastId) {
    await refuse(target, 'it would give out used ids again')
  }
  if (!(await target.explain(() => to.copies.complete(run)))) {
    await refuse(target, 'another copy into it has begun')
  }
  return {
    tables: tables.filter(({ name }) => name !== 'signing_keys'),
    lastId,
    /** SHA-256 over all that was compared, in hexadecimal. */
    checksum: hash('sha256', sums.join('\n')),
  }
}

function refuse({ explain }: CopyEnd, why: string): Promise<never> {
  return explain(() => Promise.reject(new UnusableDatabase(why)))
}

/** Keeps halves of items that are refused together, so that the refused one can be named. */
async function keepNamed(
  part: CopiedPart<unknown>,
  target: Storage,
  items: readonly unknown[],
): Promise<void> {
  try {
    await part.keep(target, items)
  } catch (error) {
    if (!isRefusal(error)) throw error
    if (items.length > 1) {
      const half = Math.ceil(items.length / 2)
      await keepNamed(part, target, items.slice(0, half))
      return keepNamed(part, target, items.slice(half))
    }
    const one = part.nameOf?.(items[0]) ?? `one of the ${part.label}`
    const why = `it cannot hold ${one}: ${(error as Error).message}`
    throw new UnusableDatabase(why, { cause: error })
  }
}

/** Whether the database holds no such row. Otherwise it cannot be used, or is full. */
function isRefusal(error: unknown): boolean {
  return !(error instanceof ServiceError || error instanceof UnusableDatabase)
}

interface Checksum {
  readonly text: string
  readonly count: number
}

/** What to do about a target that is not equal to its source. */
function differs({ label }: CopiedPart<unknown>, wanted: Checksum, found: Checksum): string {
  const how = `its ${label} (${found.count}) differ from those of the source (${wanted.count})`
  return `after the copy ${how}: stop the services of both, and run \`copy\` again`
}

/**
 * A checksum of items, whatever their order: engines sort some texts differently. The SHA-256 of each as JSON, combined by
 * exclusive or. No two are equal, which would cancel out.
 */
function createChecksum() {
  let sum = 0n
  let count = 0
  return {
    add: (items: readonly unknown[]) => {
      for (const item of items) sum ^= BigInt(`0x${hash('sha256', JSON.stringify(item))}`)
      count += items.length
    },
    value: (): Checksum => ({ text: `${count} ${sum.toString(16)}`, count }),
  }
}
