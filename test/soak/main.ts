import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { createClient } from './client.ts'
import { createFaultWindows } from './fault-windows.ts'
import * as compare from './final-checks.ts'
import { createLedger } from './ledger.ts'
import { startLoad } from './load.ts'
import { startScraping } from './observe.ts'
import { type PlanResults, runPlan } from './plan.ts'
import { createProblems } from './problems.ts'
import { report } from './report.ts'
import { openSite } from './site.ts'

const USAGE = 'npm run soak -- [--minutes 60] [--rate 300] [--report FILE]'

/** Runs the soak and prints its report. Returns the exit code. */
export async function main(args: readonly string[]): Promise<number> {
  const options = readOptions(args)
  if (options === undefined) {
    console.error(USAGE)
    return 2
  }
  const { minutes, rate } = options
  const ended = new AbortController()
  const { signal } = ended
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.on(name, () => ended.abort(new Error(`ended by ${name}`)))
  }
  const startedAt = new Date()
  const problems = createProblems()
  const site = await openSite()
  try {
    const windows = createFaultWindows()
    const ledger = createLedger(problems)
    const client = createClient(site, windows, problems)
    const parts = { site, client, ledger, windows, problems }
    const scraping = startScraping(site, windows, problems)
    const load = startLoad(parts, rate)
    const plan: PlanResults = { results: [], samples: [] }
    await Promise.race([runPlan({ ...parts, minutes, signal }, plan), untilAborted(signal)])
    await load.stop()
    await scraping.stop()
    const { seen } = scraping
    const url = site.standby.url()
    const checked = await site.command('check', '--json')
    const checks: compare.Check[] = [
      await compare.compareUsers(url, ledger),
      ...(await compare.compareCounts(site.services, problems)),
      ...compare.compareRefusals(site.services),
      await compare.compareBans(site, url),
      ...compare.compareUsage(plan.samples),
      compare.compareLogs(site.services, windows),
      {
        check: '`check` finds nothing',
        isFine: checked.code === 0,
        figure: checked.code === 0 ? 'sound' : checked.stdout + checked.stderr,
      },
      {
        check: 'metrics showed both outages',
        isFine: seen.storageDown > 0 && seen.limitStoreDown > 0,
        figure: `${seen.all} scrapes; storage down in ${seen.storageDown}, limit store in ${seen.limitStoreDown}; ${seen.unplanned} of these at other moments, when either answered late`,
      },
      {
        check: 'every answer is one that the contract allows at its moment',
        isFine: problems.count() === 0,
        figure: `${problems.count()} are not`,
      },
    ]
    client.close()
    const run = { site, startedAt, minutes, rate, leftOut: load.leftOut(), client }
    const text = report({ ...run, ...plan, checks, problems })
    console.log(text)
    if (options.file !== undefined) writeFileSync(options.file, text)
    return checks.every(({ isFine }) => isFine) ? 0 : 1
  } catch (error) {
    if (!signal.aborted) throw error
    console.error(String(signal.reason))
    return 130
  } finally {
    await site.close()
  }
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}

function readOptions(args: readonly string[]) {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        minutes: { type: 'string', default: '60' },
        rate: { type: 'string', default: '300' },
        report: { type: 'string' },
      },
    })
    const minutes = Number(values.minutes)
    const rate = Number(values.rate)
    const isRight = minutes >= 1 && minutes <= 24 * 60 && rate > 0 && rate <= 5000
    return isRight ? { minutes, rate, file: values.report } : undefined
  } catch {
    return undefined
  }
}
