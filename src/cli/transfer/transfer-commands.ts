import { type Command, Option } from 'commander'
import { CONFLICT_POLICIES } from '../../users/transfer/user-import-store.ts'
import { type CommandContext, jsonOption } from '../terminal/terminal.ts'
import type { ExportFlags } from './export.ts'
import { EXPORT_FORMATS, IMPORT_FORMATS } from './format.ts'
import type { ImportFlags } from './import.ts'

const IMPORT_HELP = `
Fields: name, email, password or password_digest (docs/import-and-export.md lists its kinds), and optionally id,
created_at and updated_at, which are kept as given. The first line of a CSV file names its columns.`

/** The values of an option that may be given several times. */
function collect(value: string, earlier: readonly string[] = []): readonly string[] {
  return [...earlier, value]
}

/** Adds `import` and `export`. */
export function addTransferCommands(program: Command, { terminal, run }: CommandContext): void {
  const about = 'format of the file, if its name does not show it'
  const format = (formats: readonly string[]) =>
    new Option('--format <FORMAT>', about).choices(formats)
  const character = 'CSV delimiter: one character, or comma, semicolon or tab'
  const at = 'the member of a JSON file that has the users, such as users or data.users'

  const policy = new Option(
    '--on-conflict <POLICY>',
    'what to do if an e-mail or id exists already',
  )
  const takeColumn = 'read a column, or a path of JSON such as a.0.b, as a field (repeatable)'
  const ignore = 'leave a column that looks like a field (repeatable)'
  const nameFrom = new Option(
    '--name-from <FIELD>',
    'name users without a name by the part of the email before the @',
  )
  const plain = new Option(
    '--passwords <KIND>',
    'take passwords of 32, 40, 64 or 128 hexadecimal digits, which are mostly digests',
  )
  const nulls = 'a cell of CSV that means nothing, such as NULL (repeatable)'
  const escapes = new Option(
    '--escape <KIND>',
    'read \\N, \\t, \\\\ and \\" in CSV as the text formats of databases have them',
  )
  const restart = new Option('--restart', 'start at the first row, also after an interruption')
  const dryRun = new Option('--dry-run', 'report what the import would do, and change nothing')
  program
    .command('import')
    .description('import users from an NDJSON, JSON or CSV file')
    .argument('<FILE>', 'the file, or - for standard input')
    .addOption(format(IMPORT_FORMATS))
    .option('--delimiter <CHARACTER>', `${character}; detected if left out`)
    .option('--encoding <NAME>', 'encoding of the text, such as windows-1252; UTF-8 if left out')
    .option('--at <PATH>', at)
    .option('--column <COLUMN=FIELD>', takeColumn, collect)
    .option('--ignore <COLUMN>', ignore, collect)
    .addOption(nameFrom.choices(['email']))
    .addOption(plain.choices(['plain']))
    .option('--null <TEXT>', nulls, collect)
    .addOption(escapes.choices(['backslash']))
    .addOption(policy.choices(CONFLICT_POLICIES).default('fail'))
    .option('--rejects <FILE>', 'write line and errors of each rejected row to it, as NDJSON')
    .option('--resume', 'continue an interrupted import of this file')
    .addOption(restart.conflicts('resume'))
    .addOption(dryRun.conflicts(['resume', 'restart']))
    .addOption(jsonOption())
    .addHelpText('after', IMPORT_HELP)
    .action((file: string, flags: Omit<ImportFlags, 'file'>) =>
      run(async () => (await import('./import.ts')).importUsers(terminal, { ...flags, file })),
    )

  const exportCommand = program
    .command('export')
    .description('write users to a file as NDJSON or CSV')
    .argument('[FILE]', 'the file, or - for standard output', '-')
    .addOption(format(EXPORT_FORMATS))
    .option('--delimiter <CHARACTER>', `${character}; a comma if left out`)
    .option('--with-digests', 'include the password digests')
    .option('--json', 'print a summary of the written file as JSON')
    .option(
      '--email <TEXT>',
      'only users with this email, or one of several with commas between them, ignoring case',
    )
    .option('--name <TEXT>', 'only users with this name, ignoring case')
  for (const name of ['created', 'updated']) {
    const after = `only users ${name} after this time, such as 2026-01-31T12:00:00Z`
    exportCommand.option(`--${name}-after <TIME>`, after)
    exportCommand.option(`--${name}-before <TIME>`, `only users ${name} before this time`)
  }
  exportCommand.action((file: string, flags: Omit<ExportFlags, 'file'>) =>
    run(async () => (await import('./export.ts')).exportUsers(terminal, { ...flags, file }), flags),
  )
}
