import { hash } from 'node:crypto'
import { UnusableDatabase } from '../unusable-database.ts'
import { createCopyChecksums, differs, digestOf, requireEqual } from './copy-checksums.ts'
import { apiKeyChunks, banChunks, type ChunkOptions, keyChunks, userChunks } from './copy-chunks.ts'
import type { CopyEnd, CopySource, CopyTarget, IdRange, TargetState } from './database-copy.ts'
import { haveSameRows } from './row-checksum.ts'

export interface CopyProgress {
  /** `compare` finds out what an interrupted copy has written. */
  readonly step: 'compare' | 'copy' | 'verify'
  readonly users: number
  readonly totalUsers: number
}

export interface CopyOptions extends Partial<ChunkOptions> {
  readonly source: CopySource
  readonly target: CopyTarget
  readonly onProgress?: (progress: CopyProgress) => void
}

export interface CopyResult {
  readonly users: number
  /** Users that an interrupted copy had written and that are still the same. */
  readonly keptUsers: number
  readonly idempotencyKeys: number
  readonly bans: number
  readonly apiKeys: number
  readonly lastId: number
  /** SHA-256 over all rows, in hexadecimal. */
  readonly checksum: string
}

/** A copy as far as it has come. */
interface Run {
  readonly source: CopySource
  readonly target: CopyTarget
  readonly chunks: ChunkOptions
  /** Of the source. */
  readonly sums: ReturnType<typeof createCopyChecksums>
  readonly report: (step: CopyProgress['step'], users: number) => void
}

/** JavaScript's numbers are exact up to its end. No engine gives out a greater id. */
const ALL_IDS: IdRange = { after: 0, through: Number.MAX_SAFE_INTEGER }

const CHUNK_ROWS = 10_000

/**
 * Copies one state of `source` into `target`, which must be empty or the target of an interrupted copy of the same source,
 * and compares all rows of both. An interrupted copy goes on where it ended, but all of the target is of one state of the
 * source: rows that have changed there are written again. Throws `UnusableDatabase`, and the reason of `signal`.
 */
export async function copyDatabase(options: CopyOptions): Promise<CopyResult> {
  const { source, target, onProgress = () => {}, chunkRows = CHUNK_ROWS } = options
  const { signal = new AbortController().signal } = options
  const signingKeys = await source.signingKeys()
  const sourceHash = hash('sha256', JSON.stringify(signingKeys))
  const state = await target.state()
  requireFree(state, sourceHash)
  const totalUsers = await source.countUsers()
  const run: Run = {
    source,
    target,
    chunks: { chunkRows, signal },
    sums: createCopyChecksums(),
    report: (step, users) => onProgress({ step, users, totalUsers }),
  }
  await target.begin(sourceHash)
  const keptUsers = state.isUsed ? await completeUsers(run) : await copyAllUsers(run)
  await copyRest(run)
  const end = { signingKeys, lastId: await source.lastId() }
  await target.finish({ ...end, verify: () => verifyTarget(run, end) })
  const { users, idempotencyKeys, bans, apiKeys } = run.sums
  return {
    users: users.rows,
    keptUsers,
    idempotencyKeys: idempotencyKeys.rows,
    bans: bans.rows,
    apiKeys: apiKeys.rows,
    lastId: end.lastId,
    checksum: digestOf(run.sums),
  }
}

function requireFree({ isUsed, unfinishedSource }: TargetState, sourceHash: string): void {
  if (unfinishedSource === sourceHash || (unfinishedSource === undefined && !isUsed)) return
  throw new UnusableDatabase(
    unfinishedSource === undefined
      ? 'it is not empty: it has users, idempotency keys, bans or API keys, or had users'
      : 'it is an unfinished copy of another database: delete it, or name that database',
  )
}

async function copyAllUsers({ source, target, chunks, sums, report }: Run): Promise<number> {
  for await (const { users } of userChunks(source, ALL_IDS, chunks)) {
    if (users.length > 0) await target.addUsers(users)
    sums.users.add(users)
    report('copy', sums.users.rows)
  }
  return 0
}

/** Writes what an interrupted copy lacks, or has in another form. Returns the number of users that can stay. */
async function completeUsers(run: Run): Promise<number> {
  const { source, target, chunks, report } = run
  const { missing, keptUsers } = await removeOtherUsers(run)
  let done = keptUsers
  for (const gap of missing) {
    for await (const { users } of userChunks(source, gap, chunks)) {
      if (users.length > 0) await target.addUsers(users)
      done += users.length
      report('copy', done)
    }
  }
  return keptUsers
}

/**
 * Deletes each range of the target that differs from the source. All of them before anything is written: an e-mail may
 * have moved from a user in one range to a user in another.
 */
async function removeOtherUsers({ source, target, chunks, sums, report }: Run) {
  const missing: IdRange[] = []
  let keptUsers = 0
  for await (const { users, range } of userChunks(source, ALL_IDS, chunks)) {
    sums.users.add(users)
    const there = await target.users(range, users.length + 1)
    if (haveSameRows(users, there)) {
      keptUsers += users.length
    } else {
      if (there.length > 0) await target.deleteUsers(range)
      missing.push(range)
    }
    report('compare', sums.users.rows)
  }
  return { missing, keptUsers }
}

async function copyRest({ source, target, chunks, sums }: Run): Promise<void> {
  for await (const keys of keyChunks(source, chunks)) {
    if (keys.length > 0) await target.addIdempotencyKeys(keys)
    sums.idempotencyKeys.add(keys)
  }
  for await (const bans of banChunks(source, chunks)) {
    if (bans.length > 0) await target.addBans(bans)
    sums.bans.add(bans)
  }
  for await (const keys of apiKeyChunks(source, chunks)) {
    if (keys.length > 0) await target.addApiKeys(keys)
    sums.apiKeys.add(keys)
  }
}

async function verifyTarget(
  { target, chunks, sums, report }: Run,
  { signingKeys, lastId }: Omit<CopyEnd, 'verify'>,
): Promise<void> {
  const found = createCopyChecksums()
  for await (const { users } of userChunks(target, ALL_IDS, chunks)) {
    found.users.add(users)
    report('verify', found.users.rows)
  }
  for await (const keys of keyChunks(target, chunks)) found.idempotencyKeys.add(keys)
  for await (const bans of banChunks(target, chunks)) found.bans.add(bans)
  for await (const keys of apiKeyChunks(target, chunks)) found.apiKeys.add(keys)
  requireEqual(found, sums)
  if (!haveSameRows(await target.signingKeys(), signingKeys)) {
    throw differs('its signing keys differ from those of the source')
  }
  if ((await target.lastId()) < lastId) throw differs('it would give out used ids again')
}
