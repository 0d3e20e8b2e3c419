import type { Endpoint } from '../../http/endpoints.ts'
import type { Reply } from '../../http/reply.ts'
import type { RuleReport } from '../../limits/rule-report.ts'
import { jsonReply } from './json-reply.ts'
import type { Operations } from './operations.ts'
import type { RuleStatus } from './service-status.ts'

/** The rules in force, with what they have done. */
export function limitsEndpoints(operations: Pick<Operations, 'report'>): readonly Endpoint[] {
  async function list(): Promise<Reply> {
    const { limits } = await operations.report()
    return jsonReply(200, (limits?.rules ?? []).map(representRule))
  }

  return [{ method: 'get', path: '/limits', handle: list }]
}

/** A rule as `GET /limits` and `GET /status` answer. */
export function representRule(report: RuleReport): RuleStatus {
  const { type, rule, isDryRun, counted, passed, refused, wouldRefuse } = report
  return { type, rule, dryRun: isDryRun, counted, passed, refused, would_refuse: wouldRefuse }
}
