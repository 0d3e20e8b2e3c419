import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Folders with a folder for each version, and what is between a version and its programs. */
const VERSIONED = [
  { folder: '/usr/lib/postgresql', prefix: '' },
  { folder: '/usr', prefix: 'pgsql-' },
  { folder: '/opt/homebrew/opt', prefix: 'postgresql@' },
  { folder: '/usr/local/opt', prefix: 'postgresql@' },
]

const NEEDED = ['initdb', 'postgres', 'pg_ctl', 'pg_basebackup']

/** The folder of an installed PostgreSQL server: on the PATH, else the newest where packages install it. */
export function findPostgresBinaries(): string | undefined {
  const onPath = (process.env.PATH ?? '').split(delimiter).filter(folder => folder !== '')
  return [...onPath, ...VERSIONED.flatMap(versionsIn)].find(folder =>
    NEEDED.every(program => existsSync(join(folder, program))),
  )
}

function versionsIn({ folder, prefix }: (typeof VERSIONED)[number]): string[] {
  if (!existsSync(folder)) return []
  const versions = readdirSync(folder)
    .filter(name => name.startsWith(prefix))
    .map(name => ({ name, version: Number(name.slice(prefix.length)) }))
    .filter(({ version }) => version >= 13)
  return versions
    .toSorted((one, other) => other.version - one.version)
    .map(({ name }) => join(folder, name, 'bin'))
}
