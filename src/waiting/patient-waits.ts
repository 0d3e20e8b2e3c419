import { createPatience } from './patience.ts'

/** Waits for the answers of another process, which may be stopped. */
export interface PatientWaits {
  /** Resolves to an answer, or to `otherwise` if it fails or takes too long. */
  wait<T>(answer: Promise<T>, otherwise: T): Promise<T>
  /** Whether the last wait took too long and no answer has come since. Waiting is then a waste of time. */
  isLate(): boolean
}

export function createPatientWaits(patienceMs: number): PatientWaits {
  let isLate = false
  const patience = createPatience()

  return {
    wait: (answer, otherwise) =>
      new Promise(resolve => {
        const { end } = patience.begin(patienceMs, () => {
          isLate = true
          resolve(otherwise)
        })
        answer.then(
          value => {
            end()
            isLate = false
            resolve(value)
          },
          () => {
            end()
            resolve(otherwise)
          },
        )
      }),
    isLate: () => isLate,
  }
}
