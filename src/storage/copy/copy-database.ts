import { isDeepStrictEqual } from 'node:util'
import { UnusableDatabase } from '../unusable-database.ts'
import { createCopyChecksums, differs, digestOf, requireEqual } from './copy-checksums.ts'
import { type ChunkOptions, chunksOf } from './copy-chunks.ts'
import type { CopyEnd, CopySource, CopyTarget } from './database-copy.ts'

export interface CopyProgress {
  readonly step: 'copy' | 'verify'
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

const NOT_EMPTY = 'it is not empty: it has users, idempotency keys, bans or API keys, or had users'

const CHUNK_ROWS = 10_000

/**
 * Copies one state of `source` into `target` and compares all rows of both. The target must be empty, or that of an
 * interrupted copy, which starts over. Throws `UnusableDatabase`, and the reason of `signal`.
 */
export async function copyDatabase(options: CopyOptions): Promise<CopyResult> {
  const { source, target, onProgress = () => {}, chunkRows = CHUNK_ROWS } = options
  const { signal = new AbortController().signal } = options
  if (!(await target.isFree())) throw new UnusableDatabase(NOT_EMPTY)
  const totalUsers = await source.countUsers()
  const run: Run = {
    source,
    target,
    chunks: { chunkRows, signal },
    sums: createCopyChecksums(),
    report: (step, users) => onProgress({ step, users, totalUsers }),
  }
  await target.begin()
  await copyTables(run)
  const end = { signingKeys: await source.signingKeys(), lastId: await source.lastId() }
  await target.finish({ ...end, verify: () => verifyTarget(run, end) })
  const { users, idempotencyKeys, bans, apiKeys } = run.sums
  return {
    users: users.rows,
    idempotencyKeys: idempotencyKeys.rows,
    bans: bans.rows,
    apiKeys: apiKeys.rows,
    lastId: end.lastId,
    checksum: digestOf(run.sums),
  }
}

async function copyTables({ source, target, chunks, sums, report }: Run): Promise<void> {
  for await (const users of chunksOf(source.users, chunks)) {
    if (users.length > 0) await target.addUsers(users)
    sums.users.add(users)
    report('copy', sums.users.rows)
  }
  for await (const keys of chunksOf(source.idempotencyKeys, chunks)) {
    if (keys.length > 0) await target.addIdempotencyKeys(keys)
    sums.idempotencyKeys.add(keys)
  }
  for await (const bans of chunksOf(source.bans, chunks)) {
    if (bans.length > 0) await target.addBans(bans)
    sums.bans.add(bans)
  }
  for await (const keys of chunksOf(source.apiKeys, chunks)) {
    if (keys.length > 0) await target.addApiKeys(keys)
    sums.apiKeys.add(keys)
  }
}

async function verifyTarget(
  { target, chunks, sums, report }: Run,
  { signingKeys, lastId }: Omit<CopyEnd, 'verify'>,
): Promise<void> {
  const found = createCopyChecksums()
  for await (const users of chunksOf(target.users, chunks)) {
    found.users.add(users)
    report('verify', found.users.rows)
  }
  for await (const keys of chunksOf(target.idempotencyKeys, chunks)) found.idempotencyKeys.add(keys)
  for await (const bans of chunksOf(target.bans, chunks)) found.bans.add(bans)
  for await (const keys of chunksOf(target.apiKeys, chunks)) found.apiKeys.add(keys)
  requireEqual(found, sums)
  if (!isDeepStrictEqual(await target.signingKeys(), signingKeys)) {
    throw differs('its signing keys differ from those of the source')
  }
  if ((await target.lastId()) < lastId) throw differs('it would give out used ids again')
}
