import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The folder of a run: `matrix.json` has the plan and the results, and each cell has a report and a log of its own.
 * Opens the run that is there if `plan` is undefined, otherwise begins one.
 */
export function openReport(folder, plan) {
  const path = join(folder, 'matrix.json')
  if (plan !== undefined && existsSync(path)) {
    throw new Error(`${path} exists: --resume goes on with it`)
  }
  mkdirSync(folder, { recursive: true })
  const content = plan ? { plan, results: {} } : JSON.parse(readFileSync(path, 'utf8'))
  const save = () => {
    writeFileSync(`${path}.new`, `${JSON.stringify(content, null, 2)}\n`)
    renameSync(`${path}.new`, path)
  }
  save()
  return {
    plan: content.plan,
    resultOf: (node, cell) => content.results[`${node} ${cell}`],
    pathOf: (node, file) => join(folder, `node-${node}-${file}`),
    add: (node, cell, result) => {
      content.results[`${node} ${cell}`] = result
      save()
    },
  }
}

/** Whether it ran to its end, and need not run again. */
export function isFinished(result) {
  return result !== undefined && result.problem === undefined
}

export function isSound(result) {
  return isFinished(result) && result.failed === 0 && result.ended === 0 && result.passed > 0
}

export function describeResult(result) {
  if (result === undefined) return 'not run'
  const { problem, passed, failed, skipped, ended } = result
  if (problem !== undefined) return problem
  const counts = `${passed} passed, ${failed} failed, ${skipped} skipped`
  return ended !== 0 && failed === 0 ? `${counts}, ended with ${ended}` : counts
}
