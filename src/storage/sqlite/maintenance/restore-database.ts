import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { open, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import {
  isSameFile,
  makeFolder,
  removeLeftovers,
  syncFile,
  syncFolder,
} from '../../../platform/durable-files.ts'
import type { Restored } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { closing, openExclusively } from '../connect.ts'
import { bytesOf, companionOf, resolveLinks } from '../database-files.ts'
import { requireFile } from '../inspect-database.ts'
import { createPrivately } from '../open-sqlite.ts'
import type { Database } from '../sqlite-driver.ts'
import { asUnusable, EMPTY, explainErrors, IN_USE } from '../sqlite-errors.ts'
import { expireReads } from '../sqlite-user-reads.ts'
import { changeOutOfWal, withPartialDatabase } from './backup-database.ts'
import { examine } from './find-faults.ts'

const UNREADABLE =
  'it cannot be read, so it is unknown whether a service has it open: stop the service, then move that file ' +
  'and the files beside it whose names end with -wal, -shm or -journal away'

/** Of a link or a rename where a file is mounted alone, or where files cannot have two names. */
const NOT_REPLACEABLE = ['EBUSY', 'EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK']

/** Before the time, in the name that the previous database gets. */
const KEPT = '.replaced-'

/** Two databases must not both post, and the receiver may know users that the backup does not have. */
const DISABLE_WEBHOOKS = `
  UPDATE webhooks SET disabled = 'restored', cursor = '', revision = revision + 1`

/**
 * Replaces a database by a checked copy of a backup, under the exclusive lock of the old one: the old file gets a second name,
 * then the copy gets its first. However this process ends, the path leads to all of the old database or all of the new one.
 * `connect` says what keeps others from going on with the old file.
 *
 * Throws `UnusableDatabase`, and then leaves the database as it was. It need not exist.
 */
export async function restoreDatabase(link: string, backup: string): Promise<Restored> {
  requireFile(link)
  requireBackup(backup, link)
  // A rename would replace a link, not the file that it leads to.
  const path = resolveLinks(link)
  await explainErrors(async () => {
    makeFolder(dirname(path))
    await requireAlone(path)
    removeLeftovers(path)
  })
  return withPartialDatabase(path, async partial => {
    const pending = await copyVerified(partial, backup)
    const replaced = await explainErrors(() => replace(path, partial))
    return { ...replaced, pending }
  })
}

function requireBackup(backup: string, path: string): void {
  const refusal = (why: string) => new UnusableDatabase(why, { file: backup })
  const file = statSync(backup, { throwIfNoEntry: false })
  if (file === undefined) throw refusal('there is no such file')
  if (!file.isFile()) throw refusal('it is not a regular file')
  if (isSameFile(backup, path)) throw refusal('it is the database itself')
  const part = companionWithContent(backup)
  if (part !== undefined) throw refusal(`a part of it is in ${part}: take a \`backup\` of it`)
}

/** Checked first, so that the operator gets this error before a large backup is verified. */
async function requireAlone(path: string): Promise<void> {
  if (!existsSync(path)) {
    const orphan = companionWithContent(path)
    if (orphan === undefined) return
    throw new UnusableDatabase(`${orphan} exists without the database: move it away`)
  }
  if (bytesOf(path) > 0) (await lockOutOfWal(path)).close()
}

/** A file beside a database, with content that is not yet in the database itself. */
function companionWithContent(path: string): string | undefined {
  return (['-wal', '-journal'] as const)
    .map(ending => companionOf(path, ending))
    .find(file => bytesOf(file) > 0)
}

/**
 * Copies a backup, which is only read, into the empty file `partial` and checks it there. Returns the names of the migrations
 * that it still lacks. Throws `UnusableDatabase`, about the backup if that is the cause.
 */
async function copyVerified(partial: string, backup: string): Promise<readonly string[]> {
  const from = await explainErrors(() => open(backup, 'r'), backup)
  const bytes = from.createReadStream({ autoClose: false })
  await explainErrors(() => writeFile(partial, bytes, { flag: 'r+' })).finally(() => from.close())
  return explainErrors(async () => {
    await changeOutOfWal(partial, () => {})
    const { faults, applied, pending } = await examine(partial)
    if (faults[0] !== undefined) throw new UnusableDatabase(faults[0])
    if (applied === 0) throw new UnusableDatabase(EMPTY)
    return pending
  }, backup)
}

/**
 * Opens a database that no other process has open, takes what its WAL or journal has into its file, and locks out all others.
 * Nothing is left beside the file that SQLite could take for a part of the one that replaces it.
 */
async function lockOutOfWal(path: string): Promise<Database> {
  try {
    return await openExclusively(path, database => {
      // Every open connection, even an idle one, holds a shared lock. Leaving WAL mode takes it exclusively.
      database.pragma('journal_mode = DELETE')
      // The first transaction gives an empty file its first page. So the second one, which stays open, needs no journal.
      database.exec('BEGIN EXCLUSIVE; COMMIT; BEGIN EXCLUSIVE')
      // A service has come and gone between the pragma and the lock.
      if (existsSync(companionOf(path, '-wal'))) throw new UnusableDatabase(IN_USE)
    })
  } catch (error) {
    const unusable = asUnusable(error)
    if (!(unusable instanceof UnusableDatabase && unusable.isFault)) throw error
    throw new UnusableDatabase(UNREADABLE, { cause: error })
  }
}

/** Returns where the previous database is, if there was one, and how many webhooks of the new one are disabled. */
async function replace(
  path: string,
  partial: string,
): Promise<Pick<Restored, 'setAside' | 'webhooks'>> {
  createPrivately(path)
  return closing(await lockOutOfWal(path), async database => {
    const hasContent = Number(database.pragma('page_count', { simple: true })) > 1
    const webhooks = await changeOutOfWal(partial, copy => {
      expireReads(copy)
      return copy.prepare(DISABLE_WEBHOOKS).run().changes
    })
    removeSecondNames(path)
    const setAside = hasContent ? freeName(path) : undefined
    replaceFile(path, { partial, kept: setAside })
    return { setAside, webhooks }
  })
}

/**
 * Gives the name of the old file to `partial`, with its owner, and the name `kept` to the old one, if it is to be kept. However
 * this process ends, also by a loss of power, `path` leads to all of one of them, and the old one is not lost.
 */
function replaceFile(
  path: string,
  { partial, kept }: { readonly partial: string; readonly kept: string | undefined },
): void {
  const { uid, gid } = statSync(path)
  if (statSync(partial).uid !== uid) chownSync(partial, uid, gid)
  syncFile(partial)
  if (kept !== undefined) chmodSync(path, 0o600)
  try {
    if (kept !== undefined) linkSync(path, kept)
    // Otherwise a loss of power could keep the rename and lose this name.
    syncFolder(dirname(path))
    renameSync(partial, path)
  } catch (error) {
    if (kept !== undefined) rmSync(kept, { force: true })
    const { code = '' } = error as NodeJS.ErrnoException
    if (!NOT_REPLACEABLE.includes(code)) throw error
    const why = `no other file can take its place (${code}): if it is mounted alone, mount its folder instead; otherwise move it away`
    throw new UnusableDatabase(why, { cause: error })
  }
  syncFolder(dirname(path))
}

/** Such as `users.db.replaced-20260131T120000Z`. */
function freeName(path: string): string {
  const time = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, '')
  const first = `${path}${KEPT}${time}`
  let name = first
  for (let serial = 2; existsSync(name); serial++) name = `${first}-${serial}`
  return name
}

/** Left by a restore that was killed before its rename. Two names of a database that is used would mean two WALs. */
function removeSecondNames(path: string): void {
  for (const name of readdirSync(dirname(path))) {
    const other = join(dirname(path), name)
    if (name.startsWith(basename(path) + KEPT) && isSameFile(other, path)) rmSync(other)
  }
}
