import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Account } from './ledger.ts'
import type { TrafficParts } from './traffic.ts'

/** Every one of these rows is rejected. */
const WRONG_ROWS = 10

const ATTEMPTS = 60

/** Imports users beside the services, and continues whenever the database goes away. Returns how often it had to. */
export async function importUsers(
  { site, ledger, problems }: TrafficParts,
  count: number,
): Promise<number> {
  const accounts = Array.from({ length: count }, (): Account => {
    const serial = ledger.nextSerial()
    const user = { name: `Imported w${serial}x`, email: `i${serial}@soak.example` }
    return { email: user.email, createBody: JSON.stringify(user), names: [undefined, user.name] }
  })
  const wrong = Array.from({ length: WRONG_ROWS }, () => '{"name": "", "email": "nobody"}')
  const file = join(site.folder, `import-${ledger.nextSerial()}.ndjson`)
  writeFileSync(file, `${[...accounts.map(account => account.createBody), ...wrong].join('\n')}\n`)
  for (const account of accounts) ledger.open(account)
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const more = attempt === 0 ? [] : ['--resume']
    const { code, stdout, stderr } = await site.command('import', file, '--json', ...more)
    if (code === 3) {
      const { end, refused } = JSON.parse(stdout)
      if (end !== 'done' || refused !== WRONG_ROWS) problems.note('an import', stdout)
      for (const account of accounts) account.names = account.names.slice(1)
      return attempt
    }
    if (code !== 1) problems.note('an import', `${code}: ${stderr}`)
    await sleep(1000)
  }
  problems.note('an import did not end', file)
  return ATTEMPTS
}
