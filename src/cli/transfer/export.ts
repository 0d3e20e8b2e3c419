import { stringify } from 'csv-stringify/sync'
import { ServiceError } from '../../errors.ts'
import { openStorageForCommand } from '../../open-database.ts'
import { partsToExport, USER_COLUMNS } from '../../users/transfer/user-export.ts'
import { readConfig } from '../terminal/read-config.ts'
import { runTask } from '../terminal/run-task.ts'
import {
  counted,
  EXIT,
  type JsonFlags,
  type Outcome,
  type Terminal,
  UsageError,
} from '../terminal/terminal.ts'
import { requireOtherFile, writeOutput } from './files.ts'
import { EXPORT_FORMATS, type FormatFlags, formatOf, STANDARD_STREAM } from './format.ts'

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
  const config = readConfig(terminal)
  requireOtherFile(file, config)
  const columns = [...USER_COLUMNS, ...(withDigests ? ['password_digest'] : [])]
  const toText = (users: readonly string[]) =>
    format === 'csv'
      ? stringify(
          users.map(user => JSON.parse(user)),
          { columns, delimiter },
        )
      : users.map(user => `${user}\n`).join('')

  return runTask(terminal, { unit: 'users' }, async ({ progress, signal }) => {
    const existing = { ifMissing: 'refuse', mustPersist: true } as const
    const { users, close } = await openStorageForCommand(config, existing)
    let done = 0
    async function* texts(pages: AsyncIterable<readonly string[]>) {
      if (format === 'csv') yield stringify([columns], { delimiter })
      for await (const page of pages) {
        yield toText(page)
        done += page.length
        progress(done)
      }
    }
    try {
      const pages = partsToExport({ users, parameters: parametersOf(flags), withDigests })
      await writeOutput(file, texts(pages), { terminal, signal, isPacked })
    } catch (error) {
      throw asUsageError(error)
    } finally {
      await close()
    }
    if (file === STANDARD_STREAM) return EXIT.done
    const json = { file, format, gzip: isPacked, users: done }
    return { lines: [`${file}: ${counted(done, 'users')}`], json }
  })
}

function parametersOf(flags: ListFlags) {
  return LIST_FLAGS.flatMap(flag => {
    const name = flag.replace(/[AB]/, letter => `_${letter.toLowerCase()}`)
    const value = flags[flag]
    return value === undefined ? [] : [{ name, value }]
  })
}

/** Turns the messages about query parameters into messages about options. */
function asUsageError(error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.code !== 'query_invalid') return error
  const problems = (error.details.errors ?? []).map(
    ({ field, messages }) => `--${field.replace('_', '-')} ${messages.join(', ')}`,
  )
  return new UsageError(problems.join('; '))
}
