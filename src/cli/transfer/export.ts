import { once } from 'node:events'
import { createWriteStream, renameSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { stringify } from 'csv-stringify/sync'
import { OperatorError, ServiceError } from '../../errors.ts'
import {
  partialNameOf,
  removeLeftovers,
  syncFile,
  syncFolder,
} from '../../platform/durable-files.ts'
import { parseWholeList } from '../../users/list-query.ts'
import { canonicalOf } from '../../users/passwords/parse-digest.ts'
import { readWholeList, USER_COLUMNS } from '../../users/user-lists.ts'
import { openStorageForCommand } from '../../wiring/open-storage.ts'
import { readConfig, requireOtherFile } from '../terminal/read-config.ts'
import { runTask } from '../terminal/run-task.ts'
import {
  counted,
  EXIT,
  type JsonFlags,
  type Outcome,
  type Terminal,
  toWriteError,
  UsageError,
  write,
} from '../terminal/terminal.ts'
import { EXPORT_FORMATS, type FormatFlags, formatOf, STANDARD_STREAM } from './format.ts'
import type { TextOptions } from './open-text.ts'

/** The options that are parameters of the list. */
const LIST_FLAGS = [
  ...(['email', 'name'] as const),
  ...(['createdAfter', 'createdBefore', 'updatedAfter', 'updatedBefore'] as const),
]

type ListFlags = Readonly<Partial<Record<(typeof LIST_FLAGS)[number], string>>>

type ExportFormat = (typeof EXPORT_FORMATS)[number]

export interface ExportFlags extends FormatFlags<ExportFormat>, JsonFlags, ListFlags {
  readonly file: string
  readonly withDigests?: boolean
}

/** Runs `export`, which needs a database with the schema of this release. */
export async function exportUsers(
  terminal: Terminal,
  flags: ExportFlags,
): Promise<Outcome | number> {
  const { file, withDigests = false } = flags
  const {
    name: format = 'ndjson',
    delimiter = ',',
    isPacked,
  } = formatOf(file, flags, EXPORT_FORMATS)
  if (flags.json && file === STANDARD_STREAM)
    throw new UsageError('--json needs a FILE: standard output is for the users themselves')
  const asked = parseFilters(flags)
  const config = readConfig(terminal)
  requireOtherFile(file, config)
  const columns = [...USER_COLUMNS, ...(withDigests ? ['password_digest'] : [])]

  return runTask(terminal, { unit: 'users' }, async ({ progress, signal }) => {
    const existing = { ifMissing: 'refuse', mustPersist: true, isReadOnly: true } as const
    const { users, close } = await openStorageForCommand(config, existing)
    let done = 0
    async function* texts() {
      if (format === 'csv') yield stringify([columns], { delimiter })
      for await (const { lines, digests } of readWholeList(users, { ...asked, withDigests })) {
        const page = lines.split('\n').slice(0, -1)
        const shown = withDigests ? page.map((json, at) => addDigest(json, digests[at])) : page
        yield format === 'csv'
          ? stringify(
              shown.map(json => Object.values(JSON.parse(json))),
              { delimiter },
            )
          : shown.map(json => `${json}\n`).join('')
        done += page.length
        progress(done)
      }
    }
    try {
      await writeOutput(file, texts(), { terminal, signal, isPacked })
    } finally {
      await close()
    }
    if (file === STANDARD_STREAM) return EXIT.done
    const json = { file, format, gzip: isPacked, users: done }
    return { lines: [`${file}: ${counted(done, 'users')}`], json }
  })
}

/**
 * Writes to standard output, or to a new file that replaces an existing one once it is complete and synced to disk. Only the
 * user of this process can read the file. Throws `OperatorError` with its name if it cannot be written, or if it exists
 * and is not a regular file. An abort makes it throw the reason of the signal, or an `AbortError`.
 */
async function writeOutput(
  file: string,
  texts: AsyncIterable<string>,
  { terminal, signal, isPacked }: Omit<TextOptions, 'encoding'>,
): Promise<void> {
  if (file === STANDARD_STREAM) {
    signal.throwIfAborted()
    const aborted = once(signal, 'abort')
    // One after the other: text that is still buffered when the process exits is lost.
    for await (const text of texts) {
      await Promise.race([write(terminal, text), aborted])
      signal.throwIfAborted()
    }
    return
  }
  // The rename would replace a device such as /dev/null with a file.
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) {
    throw new OperatorError([`${file} is not a regular file; - stands for standard output`])
  }
  const partial = partialNameOf(file)
  try {
    removeLeftovers(file)
    const output = createWriteStream(partial, { flags: 'wx', mode: 0o600 })
    await (isPacked
      ? pipeline(texts, createGzip(), output, { signal })
      : pipeline(texts, output, { signal }))
    syncFile(partial)
    renameSync(partial, file)
    syncFolder(dirname(file))
  } catch (error) {
    rmSync(partial, { force: true })
    throw toWriteError(file, error)
  }
}

/** The filters of the list. Throws `UsageError` about the options that are wrong. */
function parseFilters(flags: ListFlags) {
  const parameters = LIST_FLAGS.flatMap(flag => {
    const name = flag.replace(/[A-Z]/, letter => `_${letter.toLowerCase()}`)
    // The list takes a blank for a plus that a URL has lost.
    const value = flag === 'email' ? flags.email?.replace(/, +/g, ',') : flags[flag]
    return value === undefined ? [] : [{ name, value }]
  })
  try {
    return parseWholeList(parameters)
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error
    const problems = (error.details.errors ?? []).map(
      ({ field, messages }) => `--${field.replace('_', '-')} ${messages.join(', ')}`,
    )
    throw new UsageError(problems.join('; '))
  }
}

/** A user without a password has `null`. */
function addDigest(json: string, digest: string | null | undefined): string {
  const shown = JSON.stringify(digest == null ? null : canonicalOf(digest))
  return `${json.slice(0, -1)},"password_digest":${shown}}`
}
